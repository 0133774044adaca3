"""Photos as arrays: what the functions of the interface make of a folder and `image=`, for programs that run models by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, List, NamedTuple, Optional, cast

from bitpress import _native
from bitpress._errors import InvalidArgumentError
from bitpress._files import PathLike, existing

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Photos(NamedTuple):
    """A batch of photos."""

    pixels: npt.NDArray[np.float32]  # [photos, channels, height, width], or with channels last if `image` says so
    labels: List[int]  # the class of each photo; empty if there are none
    files: List[str]


def read_photos(folder: PathLike, image: str, *, labels: Optional[PathLike] = None, batch_size: int = 1, samples: int = 0,
                threads: int = 0) -> Iterator[Photos]:
    """Reads photos as evaluate() and the others do: the same pixels, classes and order.

    Args:
        folder: as of evaluate(): photos in it, or one subfolder a class.
        image: how a photo becomes the input of a model, such as "resize=256,crop=224,mean=0.498,std=0.502".
        labels: a CSV with the columns file,class.
        batch_size: most photos of an item; fewer come at the end.
        samples: most photos of all (0: no limit).

    Example: top-1 on a GPU.

        right = 0
        for pixels, labels, _ in bitpress.read_photos("val", image, batch_size=20):
            right += (session.run(None, {"input": pixels})[0].argmax(axis=1) == labels).sum()
    """
    for name, value, least in (("batch_size", batch_size, 1), ("samples", samples, 0), ("threads", threads, 0)):
        if value < least:
            raise InvalidArgumentError(f"{name}={value}: expected {least} or more")
    reader = _native.PhotoReader(existing(folder, "folder of photos"), image, None if labels is None else existing(labels, "table of labels"), samples, threads)
    return _batches(reader, batch_size)


def _batches(reader: _native.PhotoReader, batch_size: int) -> Iterator[Photos]:
    batch = cast(Any, reader.next(batch_size))
    while batch is not None:
        yield Photos(*batch)
        batch = cast(Any, reader.next(batch_size))
