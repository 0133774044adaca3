"""Readers of a folder of .npy or .npz files for tools that want a class of theirs. Numpy only: it runs in each tool's environment."""

from pathlib import Path

import numpy as np


def make_reader(base, folder, name):
    """A reader of the class `base`: get_next(), get_first() and rewind(). `name` is the input of arrays in .npy files; those of .npz files have names."""

    class Reader(base):
        def __init__(self):
            self.paths = sorted(Path(folder).glob("*.np[yz]"))
            self.rewind()

        def rewind(self):
            self.items = iter(self.paths)

        def get_next(self):
            path = next(self.items, None)
            if path is None:
                return None
            return dict(np.load(path)) if path.suffix == ".npz" else {name: np.load(path)}

        def get_first(self):
            self.rewind()
            first = self.get_next()
            self.rewind()
            return first

        def __len__(self):
            return len(self.paths)

    return Reader()
