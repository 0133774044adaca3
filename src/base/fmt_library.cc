// The library fmt, compiled once for the whole program. Debian has it as headers and as a shared
// library. Nothing that we install may depend on that library, and the headers alone double the
// time that every other file takes to compile.
#include <fmt/format-inl.h>

#include <locale>

namespace fmt {
namespace detail {

template thousands_sep_result<char> thousands_sep_impl(locale_ref);
template char decimal_point_impl(locale_ref);
template void buffer<char>::append(const char*, const char*);
template void vformat_to(buffer<char>&, string_view, basic_format_args<buffer_context<char>>,
                         locale_ref);
namespace dragonbox {
template decimal_fp<float> to_decimal(float) noexcept;
template decimal_fp<double> to_decimal(double) noexcept;
}  // namespace dragonbox

}  // namespace detail
}  // namespace fmt
