"""Names of other tools that are their insides: they can be imported, and using them is an error that says what to do instead."""

from typing import Any, Callable, Dict, Mapping, NoReturn

from bitpress._errors import UnsupportedError
from bitpress.compat._fates import Table, Word


def _refuse(word: Word) -> NoReturn:
    raise UnsupportedError(f"{word.name} is refused: {word.text}. Instead: {word.nearest}")


class _Refusing(type):
    """The type of stand-ins: those of tables are not read either."""

    _word: Word

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(f"type object '{cls.__name__}' has no attribute '{name}'")
        _refuse(cls._word)

    def __iter__(cls) -> NoReturn:
        _refuse(cls._word)

    def __bool__(cls) -> bool:
        return True

    def __len__(cls) -> NoReturn:
        _refuse(cls._word)

    def __contains__(cls, item: Any) -> NoReturn:
        _refuse(cls._word)

    def __getitem__(cls, key: Any) -> NoReturn:
        _refuse(cls._word)


def _stand_in(word: Word) -> type:
    def new(kind: type, *arguments: Any, **options: Any) -> NoReturn:
        _refuse(word)

    def subclassed(kind: type, **options: Any) -> NoReturn:
        _refuse(word)

    members = {"__new__": new, "__init_subclass__": subclassed, "_word": word, "__doc__": f"Refused: {word.text}. Instead: {word.nearest}"}
    return _Refusing(word.name, (), members)


def stand_ins(names: Table) -> Dict[str, type]:
    """A class for each name whose use raises what its word says."""
    return {name: _stand_in(word) for name, word in names.items()}


def refusing(found: Mapping[str, type], module: str, *names: str) -> Callable[[str], Any]:
    """A module's __getattr__ for those of the stand-ins that the other tool's module has."""
    def find(name: str) -> Any:
        if name in names:
            return found[name]
        raise AttributeError(f"module '{module}' has no attribute '{name}'")

    return find
