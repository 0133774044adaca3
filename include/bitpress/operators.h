/* The operator library libbitpress_ops.so, for programs in C or C++ that run models in ONNX
 * Runtime.
 *
 * Either name the file in OrtApi.RegisterCustomOpsLibrary_V2, or link bitpress::operators and hand
 * the function to OrtApi.RegisterCustomOpsUsingFunction; both serve the domains bitpress,
 * com.amd.quark and com.vai.quantize. Include onnxruntime_c_api.h first. */
#ifndef BITPRESS_OPERATORS_H_
#define BITPRESS_OPERATORS_H_

#ifdef __cplusplus
extern "C" {
#endif

struct OrtSessionOptions;
struct OrtApiBase;
struct OrtStatus;

/* Adds all operators to the options of a session. Returns NULL, or a status that the caller
 * releases. */
struct OrtStatus* RegisterCustomOps(struct OrtSessionOptions* options,
                                    const struct OrtApiBase* api);

#ifdef __cplusplus
}
#endif

#endif /* BITPRESS_OPERATORS_H_ */
