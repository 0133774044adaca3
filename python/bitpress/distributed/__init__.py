"""Long work on several processes or machines, with the same bytes as from one process.

>>> import bitpress.distributed as distributed
>>> distributed.calibrate("model.onnx", "photos", "stats.bpc", image="resize=256,crop=224", where=distributed.Processes(4))
>>> distributed.evaluate("model_mx6.onnx", "photos", "model.onnx", image="resize=256,crop=224", where=distributed.Ray(threads=4))

The samples are cut into shards; for sensitivities the layers are, and fine-tuning does both in turn. Each shard is work of some worker,
where the model stays loaded, and their files are added up. What is counted is exact, so that neither the number of shards nor that of workers is
seen in the result. Finished shards lie in
a folder: work that was interrupted goes on from them when the same call is made again.
"""

from bitpress.distributed._finetune import moments, quantize, tune
from bitpress.distributed._layers import search, sensitivity
from bitpress.distributed._processes import Processes
from bitpress.distributed._ray import Ray
from bitpress.distributed._shards import calibrate, evaluate

__all__ = ["Processes", "Ray", "calibrate", "evaluate", "moments", "quantize", "search", "sensitivity", "tune"]
