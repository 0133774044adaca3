"""`quark.onnx.utils.deploy_utils`."""

from bitpress.compat.quark._names import refusing

__getattr__ = refusing(__name__, "dump_model")
