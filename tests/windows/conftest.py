import pytest
import rig


def pytest_collection_modifyitems(items):
    for item in items:
        if rig.HERE in item.path.parents and (reason := rig.why_not(item.path.stem)):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def operator_dll():
    return rig.BUILD / "bitpress_ops.dll"


@pytest.fixture
def on_windows(monkeypatch):
    """on_windows(module): sessions that a test module makes are sessions of ONNX Runtime for Windows, until the test ends."""
    def change(module):
        monkeypatch.setattr(module, "onnxruntime", rig)
    return change
