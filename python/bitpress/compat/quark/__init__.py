"""AMD Quark's interface for ONNX models: `from quark.onnx import X` becomes `from bitpress.compat.quark.onnx import X`.

docs/migrate_quark.md has the fate of every word.
"""

from bitpress.compat.quark.onnx import *  # noqa: F401, F403
from bitpress.compat.quark.onnx import __all__ as __all__
