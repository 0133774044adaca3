"""Texts and token ids as samples of a language model, and `python -m bitpress._text`, by which the command line tokenizes.

The tokenizer is the library `tokenizers`, which reads the `tokenizer.json` of a model (`pip install "bitpress[text]"`).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Sequence, Tuple, TypeAlias, Union

from bitpress._errors import ArgumentTypeError, InvalidArgumentError, UnsupportedError
from bitpress._files import PathLike, existing

if TYPE_CHECKING:  # the functions import it, because it takes longer than all the rest
    import numpy as np
    import numpy.typing as npt

Ids: TypeAlias = "npt.NDArray[np.integer[Any]]"


MOST_TOKENS_OF_A_LINE = 512  # where the tokenizer does not say


def tokenizer_of(path: PathLike) -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise UnsupportedError("texts need the package tokenizers: pip install \"bitpress[text]\"") from error
    path = existing(path, "tokenizer")
    try:
        model = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more special
        raise InvalidArgumentError(f"{path}: this is no tokenizer.json: {error}") from error
    model.no_padding()
    return model


def read(file: PathLike, encoding: str) -> str:
    path = existing(file, "text")
    try:
        return path.read_text(encoding=encoding)
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{path}: byte {error.start} is not {encoding}; say which encoding the text has, such as latin-1") from error
    except LookupError as error:
        raise InvalidArgumentError(f"there is no encoding '{encoding}'") from error
    except OSError as error:
        raise InvalidArgumentError(f"{path}: {error.strerror}") from error


def write_lines(files: Sequence[PathLike], tokenizer: PathLike, encoding: str, folder: Path) -> None:
    """A file `.npz` for each line that is not empty, with the inputs of an encoder by their usual names, [1, tokens]. A line has the
    tokenizer's special tokens, and is cut where the tokenizer says. The lines themselves are in `texts.csv`, for reports."""
    import csv

    import numpy as np

    model = tokenizer_of(tokenizer)
    if model.truncation is None:
        model.enable_truncation(MOST_TOKENS_OF_A_LINE)
    lines = [line for file in files for line in read(file, encoding).splitlines() if line.strip()]
    if not lines:
        raise InvalidArgumentError("the texts have no line that is not empty")
    folder.mkdir()
    for i, line in enumerate(model.encode_batch(lines)):
        rows = {"input_ids": line.ids, "attention_mask": line.attention_mask, "token_type_ids": line.type_ids}
        arrays: Dict[str, Any] = {name: np.array([row], np.int64) for name, row in rows.items()}
        np.savez(folder / f"{i:06}.npz", **arrays)
    with open(folder / "texts.csv", "w", encoding="utf-8", newline="") as table:
        csv.writer(table).writerows([("file", "text"), *((f"{i:06}.npz", line) for i, line in enumerate(lines))])


def tokenize(files: Sequence[PathLike], tokenizer: PathLike, encoding: str = "utf-8") -> Tuple[Ids, List[int], List[int]]:
    """The token ids of the files' texts, one text after the other; the special tokens that the tokenizer puts before a text, and
    those behind it."""
    import numpy as np

    model = tokenizer_of(tokenizer)
    model.no_truncation()
    ids: List[int] = []
    for file in files:
        ids += model.encode(read(file, encoding), add_special_tokens=False).ids
    # A letter shows where special tokens stand: those of an empty text could be before it or behind it.
    plain, whole = (model.encode("a", add_special_tokens=special).ids for special in (False, True))
    begin = next((i for i in range(len(whole) - len(plain) + 1) if whole[i:i + len(plain)] == plain), 0)
    return np.array(ids, dtype=np.int64), whole[:begin], whole[begin + len(plain):]


class Tokens:
    """Token ids as `data=` of a language model: attention mask, positions and empty caches follow from them.

    Examples:
        >>> Tokens(np.arange(1024), sequence=256)

    Args:
        ids: an `.npy` file or an array of integers, [tokens] or [texts, tokens].
        sequence: tokens of a sample. Texts are cut into such pieces, and what is left over is not used. 0: what the model
            fixes, else the length of the rows, else 512.
        prefix: tokens that each sample begins with, such as <bos>. They count among the tokens of a sample.
        suffix: tokens that each sample ends with.

    Raises:
        InvalidArgumentError: other arrays, or a negative number.
    """

    def __init__(self, ids: Union[PathLike, Ids, Sequence[int]], sequence: int = 0, prefix: Sequence[int] = (),
                 suffix: Sequence[int] = ()) -> None:
        import numpy as np

        if sequence < 0 or sequence == 1:
            raise InvalidArgumentError(f"sequence={sequence}: expected 2 or more tokens, or 0")
        self.sequence = sequence
        self.prefix = [int(token) for token in prefix]
        self.suffix = [int(token) for token in suffix]
        self._path = existing(ids, "file of tokens") if isinstance(ids, (str, os.PathLike)) else None
        if self._path is None:
            self._ids = np.asarray(ids)
            if self._ids.dtype.kind not in "iu" or self._ids.ndim not in (1, 2):
                raise InvalidArgumentError(f"token ids are integers [tokens] or [texts, tokens], not {self._ids.dtype} {list(self._ids.shape)}")

    @contextlib.contextmanager
    def file(self) -> Iterator[Path]:
        """The ids as an .npy file for as long as the block lasts."""
        import numpy as np

        if self._path is not None:
            yield self._path
            return
        with tempfile.TemporaryDirectory(prefix="bitpress-") as folder:
            path = Path(folder) / "tokens.npy"
            np.save(path, self._ids.astype(np.int64))
            yield path


class Text(Tokens):
    """Text files as `data=` of a language model. Each sample begins and ends with the special tokens that the tokenizer puts around
    a text: some models predict badly without their <bos>.

    Examples:
        >>> Text(["news.txt"], "tokenizer.json", sequence=256)

    Args:
        files: text files, or one.
        tokenizer: the model's `tokenizer.json`.
        sequence: as in `Tokens`.
        encoding: the encoding of the files.

    Raises:
        MissingFileError: a file is not there.
        InvalidArgumentError: a file is not in this encoding, or no tokenizer.
        UnsupportedError: the package tokenizers is not installed.
    """

    def __init__(self, files: Union[PathLike, Sequence[PathLike]], tokenizer: PathLike, sequence: int = 0,
                 encoding: str = "utf-8") -> None:
        if isinstance(files, (str, os.PathLike)):
            files = [files]
        if not all(isinstance(file, (str, os.PathLike)) for file in files):
            raise ArgumentTypeError("texts are paths of files")
        ids, prefix, suffix = tokenize(files, tokenizer, encoding)
        super().__init__(ids, sequence, prefix, suffix)


def main() -> int:
    import numpy as np

    parser = argparse.ArgumentParser(prog="bitpress --text")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--encoding", default="utf-8")
    parser.add_argument("--ids")
    parser.add_argument("--special")
    parser.add_argument("--lines")
    arguments = parser.parse_args()
    try:
        if arguments.lines:
            write_lines(arguments.files, arguments.tokenizer, arguments.encoding, Path(arguments.lines))
            return 0
        ids, prefix, suffix = tokenize(arguments.files, arguments.tokenizer, arguments.encoding)
        np.save(arguments.ids, ids)
        Path(arguments.special).write_text(json.dumps({"prefix": prefix, "suffix": suffix}), encoding="utf-8")
    except Exception as error:  # the program that started this shows the last line
        print(str(error).replace("\n", " "), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
