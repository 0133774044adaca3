// The rule of ONNX Runtime's GroupQueryAttention: causal attention of query heads that share heads
// of keys and values, with rotary positions and caches in front.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gradients/products.h"
#include "gradients/rules.h"

namespace bitpress::gradients {
namespace {

// The attributes of the node.
struct Settings {
  size_t heads = 1, kv_heads = 1;
  float scale = 0;     // of scores; 0: one over the root of a head's length
  int64_t window = 0;  // keys that a query sees, its own included; 0: all
  bool is_rotary = false, is_interleaved = false;
};

// Columns of one head in rows of [batch, sequence, columns].
template <typename T>
struct HeadColumns {
  T* data = nullptr;
  size_t stride = 0;  // from one row to the next
  T* Row(size_t row) const { return data + row * stride; }
};

// Multiplies two matrices: c = a b, or c += a b.
template <typename T>
void Product(size_t rows, size_t depth, size_t columns, const View<T>& a, const View<T>& b, T* c,
             size_t c_stride, bool adds) {
  Left<T> left;
  left.Pack(rows, depth, a);
  left.Multiply(columns, b, c, c_stride, adds);
}

template <typename T>
class GroupQueryAttentionRule : public Rule<T> {
 public:
  using typename Rule<T>::Inputs;
  GroupQueryAttentionRule(const Settings& settings, ThreadPool& pool)
      : settings_(settings), pool_(pool) {}

  void Forward(Inputs inputs, std::span<Array<T>* const> outputs) override {
    Prepare(inputs);
    const int64_t present[4] = {static_cast<int64_t>(batch_),
                                static_cast<int64_t>(settings_.kv_heads),
                                static_cast<int64_t>(keys_of_head_), static_cast<int64_t>(length_)};
    keys_.Reshape(present);
    values_.Reshape(present);
    queries_.resize(batch_ * settings_.heads * rows_ * length_);
    shares_.resize(batch_ * settings_.heads * rows_ * keys_of_head_);
    const int64_t dims[3] = {static_cast<int64_t>(batch_), static_cast<int64_t>(rows_),
                             static_cast<int64_t>(settings_.heads * length_)};
    outputs[0]->Reshape(dims);
    const size_t group = settings_.heads / settings_.kv_heads;
    pool_.ParallelFor(batch_ * settings_.kv_heads, [&](size_t task) {
      const size_t sample = task / settings_.kv_heads;
      const size_t kv_head = task % settings_.kv_heads;
      TakeKeys(inputs, sample, kv_head);
      for (size_t i = 0; i < group; ++i) {
        const size_t head = kv_head * group + i;
        TakeQueries(inputs, sample, head);
        Attend(sample, head,
               outputs[0]->data() + (sample * rows_ * settings_.heads + head) * length_);
      }
    });
    if (outputs.size() > 1) *outputs[1] = keys_;
    if (outputs.size() > 2) *outputs[2] = values_;
  }

  void Backward(Inputs inputs, Inputs, Inputs output_gradients,
                std::span<Array<T>* const> gradients) override {
    const size_t group = settings_.heads / settings_.kv_heads;
    const size_t size = keys_of_head_ * length_;
    pool_.ParallelFor(batch_ * settings_.kv_heads, [&](size_t task) {
      const size_t sample = task / settings_.kv_heads;
      const size_t kv_head = task % settings_.kv_heads;
      std::vector<T> of_keys(size), of_values(size), of_queries(rows_ * length_);
      // Caches are outputs, too.
      if (output_gradients.size() > 1) {
        std::copy_n(output_gradients[1]->data() + task * size, size, of_keys.data());
      }
      if (output_gradients.size() > 2) {
        std::copy_n(output_gradients[2]->data() + task * size, size, of_values.data());
      }
      for (size_t i = 0; i < group; ++i) {
        const size_t head = kv_head * group + i;
        const T* const g =
            output_gradients[0]->data() + (sample * rows_ * settings_.heads + head) * length_;
        AttendBackward(sample, head, g, of_queries, of_keys, of_values);
        AddTurnedBack(inputs, of_queries.data(), ColumnsOf(gradients, 0, sample, head));
      }
      AddTurnedBack(inputs, of_keys.data() + past_ * length_,
                    ColumnsOf(gradients, 1, sample, kv_head));
      const HeadColumns<T> to = ColumnsOf(gradients, 2, sample, kv_head);
      for (size_t row = 0; to.data != nullptr && row < rows_; ++row) {
        const T* const from = of_values.data() + (past_ + row) * length_;
        for (size_t i = 0; i < length_; ++i) to.Row(row)[i] += from[i];
      }
    });
  }

 private:
  void Prepare(Inputs inputs) {
    const Array<T>& query = *inputs[0];
    is_packed_ = inputs[1] == nullptr;
    const size_t columns_of_heads = settings_.heads + (is_packed_ ? 2 * settings_.kv_heads : 0);
    if (query.dims.size() != 3 || query.dims[2] % static_cast<int64_t>(columns_of_heads) != 0) {
      Fail(ErrorCode::kInvalidArgument, "queries [{}] are not those of {} heads",
           fmt::join(query.dims, ", "), settings_.heads);
    }
    batch_ = static_cast<size_t>(query.dims[0]);
    rows_ = static_cast<size_t>(query.dims[1]);
    length_ = static_cast<size_t>(query.dims[2]) / columns_of_heads;
    const size_t num_kv = batch_ * rows_ * settings_.kv_heads * length_;
    if (!is_packed_ && (inputs[1]->size() != num_kv || inputs[2]->size() != num_kv)) {
      Fail(ErrorCode::kInvalidArgument, "keys [{}] do not fit queries [{}]",
           fmt::join(inputs[1]->dims, ", "), fmt::join(query.dims, ", "));
    }
    past_ = 0;
    if (inputs.size() > 4 && inputs[3] != nullptr) {
      if (inputs[3]->dims.size() != 4) {
        Fail(ErrorCode::kInvalidArgument, "the cache [{}] is none",
             fmt::join(inputs[3]->dims, ", "));
      }
      past_ = static_cast<size_t>(inputs[3]->dims[2]);
    }
    keys_of_head_ = past_ + rows_;
    // Behind an empty cache shorter texts end in rows that no other row reads.
    for (size_t i = 0; past_ > 0 && i < inputs[5]->size(); ++i) {
      if (inputs[5]->values[i] != static_cast<T>(keys_of_head_ - 1)) {
        Fail(ErrorCode::kInvalidArgument, "caches of different lengths have no gradient");
      }
    }
    if (!settings_.is_rotary) return;
    turned_ = 2 * static_cast<size_t>(inputs[7]->dims.back());
    if (turned_ > length_ || inputs[7]->size() < keys_of_head_ * turned_ / 2 ||
        inputs[8]->size() != inputs[7]->size()) {
      Fail(ErrorCode::kInvalidArgument, "the table of positions [{}] does not fit heads of {}",
           fmt::join(inputs[7]->dims, ", "), length_);
    }
  }

  // Returns a head of an input (0: queries, 1: keys, 2: values) or of its gradient. Null: there is
  // none.
  template <typename Arrays>
  auto ColumnsOf(Arrays arrays, size_t input, size_t sample, size_t head) const {
    using Element = std::remove_pointer_t<decltype(arrays[0]->data())>;
    const auto array = arrays[is_packed_ ? 0 : input];
    if (array == nullptr) return HeadColumns<Element>{};
    const size_t own = input == 0 ? settings_.heads : settings_.kv_heads;
    const size_t all = is_packed_ ? settings_.heads + 2 * settings_.kv_heads : own;
    const size_t before =
        !is_packed_ || input == 0 ? 0 : settings_.heads + (input - 1) * settings_.kv_heads;
    return HeadColumns<Element>{array->data() + (sample * rows_ * all + before + head) * length_,
                                all * length_};
  }

  // Turns a row to its position: sign 1, or back: -1.
  void Turn(Inputs inputs, size_t position, T sign, T* row) const {
    if (!settings_.is_rotary) return;
    const size_t half = turned_ / 2;
    const T* const cosines = inputs[7]->data() + position * half;
    const T* const sines = inputs[8]->data() + position * half;
    for (size_t i = 0; i < half; ++i) {
      T& a = row[settings_.is_interleaved ? 2 * i : i];
      T& b = row[settings_.is_interleaved ? 2 * i + 1 : half + i];
      const T first = a * cosines[i] - sign * b * sines[i];
      b = sign * a * sines[i] + b * cosines[i];
      a = first;
    }
  }

  void TakeKeys(Inputs inputs, size_t sample, size_t head) {
    const size_t at = (sample * settings_.kv_heads + head) * keys_of_head_ * length_;
    if (past_ > 0) {
      const size_t count = past_ * length_;
      const size_t from = (sample * settings_.kv_heads + head) * count;
      std::copy_n(inputs[3]->data() + from, count, keys_.data() + at);
      std::copy_n(inputs[4]->data() + from, count, values_.data() + at);
    }
    const HeadColumns<const T> keys = ColumnsOf(inputs, 1, sample, head);
    const HeadColumns<const T> values = ColumnsOf(inputs, 2, sample, head);
    for (size_t row = 0; row < rows_; ++row) {
      T* const key = keys_.data() + at + (past_ + row) * length_;
      std::copy_n(keys.Row(row), length_, key);
      Turn(inputs, past_ + row, T{1}, key);
      std::copy_n(values.Row(row), length_, values_.data() + at + (past_ + row) * length_);
    }
  }

  void TakeQueries(Inputs inputs, size_t sample, size_t head) {
    T* const queries = queries_.data() + (sample * settings_.heads + head) * rows_ * length_;
    const HeadColumns<const T> from = ColumnsOf(inputs, 0, sample, head);
    for (size_t row = 0; row < rows_; ++row) {
      std::copy_n(from.Row(row), length_, queries + row * length_);
      Turn(inputs, past_ + row, T{1}, queries + row * length_);
    }
  }

  void AddTurnedBack(Inputs inputs, T* gradient, const HeadColumns<T>& to) const {
    for (size_t row = 0; to.data != nullptr && row < rows_; ++row) {
      T* const from = gradient + row * length_;
      Turn(inputs, past_ + row, T{-1}, from);
      for (size_t i = 0; i < length_; ++i) to.Row(row)[i] += from[i];
    }
  }

  T Scale() const {
    return settings_.scale != 0 ? static_cast<T>(settings_.scale)
                                : 1 / std::sqrt(static_cast<T>(length_));
  }
  const T* KeysOf(const Array<T>& array, size_t sample, size_t head) const {
    const size_t kv_head = head * settings_.kv_heads / settings_.heads;
    return array.data() + (sample * settings_.kv_heads + kv_head) * keys_of_head_ * length_;
  }
  // Keys that a row sees: [first, end).
  size_t FirstSeen(size_t row) const {
    const auto window = static_cast<size_t>(settings_.window);
    return window == 0 || EndSeen(row) < window ? 0 : EndSeen(row) - window;
  }
  size_t EndSeen(size_t row) const { return past_ + row + 1; }

  // Computes the shares of keys of one head, and its output.
  void Attend(size_t sample, size_t head, T* out) {
    const size_t index = sample * settings_.heads + head;
    T* const shares = shares_.data() + index * rows_ * keys_of_head_;
    const T* const queries = queries_.data() + index * rows_ * length_;
    Product<T>(rows_, length_, keys_of_head_, {queries, length_, 1},
               {KeysOf(keys_, sample, head), 1, length_}, shares, keys_of_head_, false);
    for (size_t row = 0; row < rows_; ++row) {
      T* const of_row = shares + row * keys_of_head_;
      const size_t first = FirstSeen(row);
      const size_t end = EndSeen(row);
      T most = -std::numeric_limits<T>::infinity();
      for (size_t j = first; j < end; ++j) most = std::max(most, of_row[j] *= Scale());
      T sum = 0;
      for (size_t j = first; j < end; ++j) sum += of_row[j] = std::exp(of_row[j] - most);
      for (size_t j = first; j < end; ++j) of_row[j] /= sum;
      std::fill(of_row, of_row + first, T{0});
      std::fill(of_row + end, of_row + keys_of_head_, T{0});
    }
    Product<T>(rows_, keys_of_head_, length_, {shares, keys_of_head_, 1},
               {KeysOf(values_, sample, head), length_, 1}, out, settings_.heads * length_, false);
  }

  // Computes the gradient of a head's queries, and adds those of keys and values.
  void AttendBackward(size_t sample, size_t head, const T* g, std::vector<T>& of_queries,
                      std::vector<T>& of_keys, std::vector<T>& of_values) const {
    const size_t index = sample * settings_.heads + head;
    const T* const shares = shares_.data() + index * rows_ * keys_of_head_;
    const T* const queries = queries_.data() + index * rows_ * length_;
    const View<T> of_output{g, settings_.heads * length_, 1};
    const View<T> of_shares{shares, keys_of_head_, 1};
    Product<T>(keys_of_head_, rows_, length_, of_shares.Turned(), of_output, of_values.data(),
               length_, true);
    std::vector<T> of_scores(rows_ * keys_of_head_);
    Product<T>(rows_, length_, keys_of_head_, of_output,
               {KeysOf(values_, sample, head), 1, length_}, of_scores.data(), keys_of_head_, false);
    for (size_t row = 0; row < rows_; ++row) {
      T* const of_row = of_scores.data() + row * keys_of_head_;
      const T* const share = shares + row * keys_of_head_;
      T sum = 0;
      for (size_t j = 0; j < keys_of_head_; ++j) sum += of_row[j] * share[j];
      for (size_t j = 0; j < keys_of_head_; ++j) of_row[j] = share[j] * (of_row[j] - sum) * Scale();
    }
    const View<T> scores{of_scores.data(), keys_of_head_, 1};
    Product<T>(rows_, keys_of_head_, length_, scores, {KeysOf(keys_, sample, head), length_, 1},
               of_queries.data(), length_, false);
    Product<T>(keys_of_head_, rows_, length_, scores.Turned(), {queries, length_, 1},
               of_keys.data(), length_, true);
  }

  Settings settings_;
  ThreadPool& pool_;
  bool is_packed_ = false;  // keys and values stand behind the queries in one input
  size_t batch_ = 0, rows_ = 0, length_ = 0;  // samples, queries of a head, and a query's length
  size_t past_ = 0, keys_of_head_ = 0;        // keys of the cache, and all of them
  size_t turned_ = 0;                         // elements of a head that positions turn
  Array<T> keys_, values_;                    // [batch, head, key, length], at their positions
  std::vector<T> queries_, shares_;           // [batch, head, query, length or key]
};

}  // namespace

template <typename T>
RuleOf<T> MakeAttention(const RuleNode& node) {
  if (node.op_type() != "GroupQueryAttention") return nullptr;
  const auto number = [&](const char* name, int64_t fallback) {
    return node.node.GetInt(name, fallback);
  };
  const int64_t heads = number("num_heads", 0);
  const int64_t kv_heads = number("kv_num_heads", 0);
  if (heads <= 0 || kv_heads <= 0 || heads % kv_heads != 0) {
    node.Refuse("its numbers of heads do not fit");
  }
  const bool is_rotary = number("do_rotary", 0) != 0;
  if (!node.HasInput(5) || (is_rotary && (!node.HasInput(7) || !node.HasInput(8)))) {
    node.Refuse("it has no lengths or no positions");
  }
  for (size_t i = 9; i < node.node.num_inputs(); ++i) {
    if (node.HasInput(i)) node.Refuse("attention with a bias or with given positions has no rule");
  }
  const bool has_others = node.node.GetFloat("softcap", 0) != 0 ||
                          number("smooth_softmax", 0) > 0 || number("qk_output", 0) != 0 ||
                          node.node.GetString("k_quant_type", "NONE") != "NONE";
  if (has_others) node.Refuse("this form of attention has no rule");
  return std::make_unique<GroupQueryAttentionRule<T>>(
      Settings{.heads = static_cast<size_t>(heads),
               .kv_heads = static_cast<size_t>(kv_heads),
               .scale = node.node.GetFloat("scale", 0),
               .window = std::max<int64_t>(number("local_window_size", -1), 0),
               .is_rotary = is_rotary,
               .is_interleaved = number("rotary_interleaved", 0) != 0},
      node.pool);
}
template RuleOf<float> MakeAttention<float>(const RuleNode&);
template RuleOf<double> MakeAttention<double>(const RuleNode&);

}  // namespace bitpress::gradients
