"""Structs of flags and settings: frozen, made by keyword.

They are what the standard library's dataclasses would make of them, in less time: it compiles six functions
for each class at every start of the program, and those of thirty classes were a sixth of the time of
`backup get`. Here all classes share their functions. What `--help` loads uses these structs; where msgspec is
loaded anyway, its structs are as quick.
"""

from inspect import get_annotations
from typing import Any, ClassVar, NoReturn, TypeVar, dataclass_transform


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Struct:
    """Base of structs: the annotated names are its fields, those with a value have it as their default.

    All structs of a class share a default, so it must be immutable.

    Attributes:
        __struct_fields__: the names of the fields, those of base classes first, from left to right.
        __struct_defaults__: the values of the fields that need not be given.
    """

    __struct_fields__: ClassVar[tuple[str, ...]] = ()
    __struct_defaults__: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        inherited = [name for base in cls.__bases__ for name in getattr(base, "__struct_fields__", ())]
        names = dict.fromkeys((*inherited, *get_annotations(cls)))
        cls.__struct_fields__ = tuple(names)
        cls.__struct_defaults__ = {name: getattr(cls, name) for name in names if hasattr(cls, name)}

    def __init__(self, **given: Any) -> None:
        values = {**self.__struct_defaults__, **given}
        if wrong := values.keys() ^ set(self.__struct_fields__):
            raise TypeError(f"{type(self).__name__}: missing or unknown: {', '.join(sorted(wrong))}")
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be removed")

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__[name] for name in self.__struct_fields__))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={self.__dict__[name]!r}" for name in self.__struct_fields__)
        return f"{type(self).__name__}({shown})"


S = TypeVar("S", bound=Struct)


def replace(struct: S, **changes: Any) -> S:
    """Return the same struct but for some fields. Raises TypeError for unknown ones."""
    return type(struct)(**{**struct.__dict__, **changes})
