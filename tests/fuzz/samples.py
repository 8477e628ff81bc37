"""Legal values of any message, drawn from the definition of its struct.

Nothing here knows a field: a message that gains one is fuzzed with it from then on. Names of
fields can be given values of their own, for those that only make sense near the present state.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 64) - 1
"""The range of a msgpack integer."""
_EDGES: Final = [
    edge + near
    for edge in (0, 1 << 7, 1 << 8, 1 << 16, 1 << 31, 1 << 32, 1 << 42, 1 << 62, 1 << 63, 1 << 64)
    for near in (-1, 0, 1)
] + [INT_MIN, -(1 << 31) - 1, -(1 << 31), -2]
_AWKWARD_TEXT: Final = ["", "/", "//", "/a", "/a/", "a", "/.", "/zookeeper", "\0", "/é", "/😀", "."]

Strategies = Mapping[str, st.SearchStrategy[Any]]
"""Values of fields, by the name of the field, alone or as `Struct.field`."""

texts: Final = st.sampled_from(_AWKWARD_TEXT) | st.text(max_size=12)


def values_of(kind: Any, fields: Strategies | None = None) -> st.SearchStrategy[Any]:
    """Values of a type, `fields` of structs from their own strategies."""
    return _Builder(fields or {}).of(inspect.type_info(kind))


def required_of(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Values of a struct whose other fields have their defaults."""
    fields = [field for field in msgspec.structs.fields(kind) if field.required]
    return st.builds(kind, **{field.name: values_of(field.type) for field in fields})


class _Builder:
    def __init__(self, fields: Strategies) -> None:
        self._fields = fields
        self._structs: dict[type, st.SearchStrategy[Any]] = {}

    def of(self, info: inspect.Type) -> st.SearchStrategy[Any]:
        match info:
            case inspect.Metadata():
                return self.of(info.type)
            case inspect.StructType():
                return self._struct(info)
            case inspect.UnionType():
                return st.one_of([self.of(each) for each in info.types])
            case inspect.ListType():
                return st.lists(self.of(info.item_type), max_size=4)
            case inspect.VarTupleType():
                return st.lists(self.of(info.item_type), max_size=4).map(tuple)
            case inspect.DictType():
                kinds = self.of(info.key_type), self.of(info.value_type)
                return st.dictionaries(*kinds, min_size=info.min_length or 0, max_size=3)
            case inspect.EnumType():
                return st.sampled_from(list(info.cls))
            case _:
                return _scalar(info)

    def _struct(self, info: inspect.StructType) -> st.SearchStrategy[Any]:
        cls = info.cls
        if cls not in self._structs:
            named = {field.name: self._field(cls, field) for field in info.fields}
            self._structs[cls] = st.builds(cls, **named)
        return self._structs[cls]

    def _field(self, cls: type, field: inspect.Field) -> st.SearchStrategy[Any]:
        for name in (f"{cls.__name__}.{field.name}", field.name):
            if name in self._fields:
                return self._fields[name]
        return self.of(field.type)


def _scalar(info: inspect.Type) -> st.SearchStrategy[Any]:
    match info:
        case inspect.IntType():
            least = INT_MIN if info.ge is None else info.ge
            most = INT_MAX if info.le is None else info.le
            edges = [edge for edge in [*_EDGES, least, most] if least <= edge <= most]
            return st.integers(max(0, least), min(5, most)) | st.sampled_from(edges)
        case inspect.StrType() if info.pattern is not None:
            return st.from_regex(info.pattern)
        case inspect.StrType():
            most = info.max_length if info.max_length is not None else 20
            return texts.filter(lambda text: len(text) <= most)
        case inspect.BytesType():
            return st.binary(max_size=20) | st.binary(min_size=16, max_size=16)
        case inspect.BoolType():
            return st.booleans()
        case inspect.FloatType():
            return st.floats(allow_nan=False)
        case inspect.NoneType():
            return st.none()
        case _:
            raise NotImplementedError(info)


encode: Final = msgspec.msgpack.Encoder().encode
