"""Read a pickle as data: tensors, storages and containers are recognised, everything else becomes inert.

Python's own unpickler imports modules and calls whatever a file names. Here ``pickletools`` only takes the opcodes
apart, and this module follows them with a stack of plain objects. No module is imported, no attribute is looked up and
no function of a file is called, so there is nothing that a hostile file could run:

- A class or function is a ``Global``, two strings. An object is a ``Thing`` that holds its class, arguments and state.
- A call of a function in ``CALLS`` is recorded as a ``Thing``. Any other call, and any other name from Python's
  standard library, is refused.
- Only strings become keys of dictionaries. Other keys are kept aside: hashing a tuple of tuples can take forever.
- Every opcode and every copied element counts against ``STEPS``.
"""

import io
import pickletools
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

STEPS = 2_000_000
"""Maximum number of opcodes (and copied elements) of a pickle. A whole ResNet-50 has about 30,000."""
# Modules of the standard library, also of Python 2. Of these, a checkpoint needs only what is named in DATA and CALLS.
STANDARD = {*sys.stdlib_module_names, "__builtin__", "copy_reg", "commands", "exceptions"}
BUILTIN = ("builtins", "__builtin__")
DICTIONARIES = {
    *((module, "dict") for module in BUILTIN),
    ("collections", "OrderedDict"),
    ("collections", "defaultdict"),
    ("collections", "Counter"),
}
RECONSTRUCTORS = {
    (module, name) for module in ("copyreg", "copy_reg") for name in ("_reconstructor", "__newobj__", "__newobj_ex__")
}
SETS = {(module, name) for module in BUILTIN for name in ("set", "frozenset")}
# Functions and classes that build data from data.
CALLS = {
    *DICTIONARIES,
    *RECONSTRUCTORS,
    *SETS,
    *((module, name) for module in BUILTIN for name in ("bytearray", "bytes", "complex", "list", "tuple", "slice")),
    *((module, name) for module in BUILTIN for name in ("object", "range", "xrange", "int", "float", "bool", "str")),
    # a module's attribute may be a function such as torch.relu, which pickle stores as a call of getattr
    *((module, "getattr") for module in BUILTIN),
    ("_codecs", "encode"),
    ("collections", "deque"),
    ("datetime", "datetime"),
    ("datetime", "timedelta"),
    ("functools", "partial"),
    *((module, name) for module in ("pathlib", "pathlib._local") for name in ("PosixPath", "WindowsPath")),
    *((f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in ("_reconstruct", "scalar")),
    ("numpy", "dtype"),
    ("torch", "Size"),
    ("torch", "device"),
    ("torch._tensor", "_rebuild_from_type_v2"),
    ("torch.amp.grad_scaler", "OptState"),
    ("torch.cuda.amp.grad_scaler", "OptState"),
    ("torch.serialization", "_get_layout"),
    ("timm.layers.format", "Format"),
    ("torchvision.transforms.functional", "InterpolationMode"),
    *(
        ("torch._utils", f"_rebuild_{name}")
        for name in (
            "tensor", "tensor_v2", "tensor_v3", "parameter", "parameter_with_state", "sparse_tensor",
            "sparse_csr_tensor", "qtensor", "meta_tensor_no_storage", "nested_tensor", "wrapper_subclass",
            "device_tensor_from_numpy", "device_tensor_from_cpu_tensor", "xla_tensor",
        )
    ),
}  # fmt: skip
# Names of the standard library that occur in attributes of modules, without being called.
DATA = {("argparse", "Namespace"), ("types", "SimpleNamespace"), *((module, "type") for module in BUILTIN)}
AGAIN = "If you trust the file, load it in the program that wrote it and save only its state_dict()"


class Refused(Exception):
    """A file that is damaged, hostile or too large. The message completes "The file …"; ``advice`` says what to do."""

    def __init__(self, reason: str, advice: str = "Delete it and download it again"):
        super().__init__(reason)
        self.advice = advice


def refused_call(called: "Global") -> Refused:
    return Refused(f"tries to call '{called}', which would run code from it", AGAIN)


class Global(NamedTuple):
    """A class or function, by its name only."""

    module: str
    name: str

    def __str__(self) -> str:
        return shown(f"{self.module}.{self.name}")


class Table(dict):
    """A dictionary with strings as keys; ``others`` has the pairs with other keys. Equal to nothing but itself."""

    __slots__ = ("others",)
    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def __init__(self) -> None:
        super().__init__()
        self.others: list[tuple[Any, Any]] = []

    def put(self, key: Any, value: Any) -> None:
        if type(key) is str:
            self[key] = value
        else:
            self.others.append((key, value))


class Thing:
    """An object of an unknown class, or a recorded call: its class or function, arguments and state."""

    __slots__ = ("arguments", "kind", "state")

    def __init__(self, kind: Global, arguments: Any = ()):
        self.kind, self.arguments = kind, arguments
        self.state: Any = None


class Mark:
    """The start of a group on the stack."""


class Unhashed(list):
    """The elements of a set."""


def shown(text: Any, longest: int = 100) -> str:
    """A name from a file, fit for a message: one line, printable and not too long."""
    text = text if isinstance(text, str) else f"a {type(text).__name__}"
    text = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text[: longest + 1])
    return text if len(text) <= longest else f"{text[:longest]}…"


def read(
    file: io.BytesIO,
    persistent: Callable[[Any], Any],
    rebuild: Callable[[Thing], Any] = lambda call: call,
) -> Any:
    """The object of the next pickle in ``file``, which is left at the byte after it.

    ``persistent`` turns a persistent id into an object. ``rebuild`` may replace a recorded call, for example
    by a tensor.
    """
    machine = _Machine(persistent, rebuild)
    try:
        for opcode, argument, _ in pickletools.genops(file):
            machine.spend(1)
            if opcode.name == "STOP":
                return machine.pop()
            machine.do(opcode.name, argument)
    except (IndexError, KeyError) as error:
        raise Refused("is damaged (its pickle uses a value that does not exist)") from error
    except (ValueError, UnicodeError, OverflowError, TypeError) as error:  # raised by pickletools for broken opcodes
        raise Refused("is damaged (its pickle ends early or has unknown opcodes)") from error
    raise Refused("is damaged (its pickle ends early)")


CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
EMPTY: dict[str, Callable[[], Any]] = {
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": Table,
    "EMPTY_SET": Unhashed,
}
LITERALS = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING",
    "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8", "UNICODE", "SHORT_BINUNICODE",
    "BINUNICODE", "BINUNICODE8",
}  # fmt: skip
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
PUTS = ("PUT", "BINPUT", "LONG_BINPUT")
GETS = ("GET", "BINGET", "LONG_BINGET")


class _Machine:
    """The stack and the memo of a pickle."""

    def __init__(self, persistent: Callable[[Any], Any], rebuild: Callable[[Thing], Any]):
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.persistent, self.rebuild = persistent, rebuild
        self.steps = 0

    def spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > STEPS:
            raise Refused(f"is too complex for a checkpoint (more than {STEPS:,} elements besides its tensors)", AGAIN)

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is Mark:
            raise Refused("is damaged (its pickle ends inside a group)")
        return value

    def group(self) -> list[Any]:
        """The values above the last mark."""
        place = len(self.stack) - 1
        while self.stack[place] is not Mark:
            place -= 1
            if place < 0:
                raise Refused("is damaged (its pickle closes a group that it never opened)")
        values = self.stack[place + 1 :]
        del self.stack[place:]
        return values

    def do(self, name: str, argument: Any) -> None:
        """Follow one opcode."""
        push = self.stack.append
        if name in LITERALS:
            push(argument)
        elif name in CONSTANTS:
            push(CONSTANTS[name])
        elif name in EMPTY:
            push(EMPTY[name]())
        elif name in GETS:
            push(self.memo[int(argument)])
        elif name in PUTS:
            self.memo[int(argument)] = self._top()
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = self._top()
        elif name == "MARK":
            push(Mark)
        elif name == "POP":
            self.stack.pop()
        elif name == "POP_MARK":
            self.group()
        elif name == "DUP":
            push(self._top())
        elif name in TUPLES:
            push(tuple([self.pop() for _ in range(TUPLES[name])][::-1]))
        elif name in ("TUPLE", "LIST"):
            push((tuple if name == "TUPLE" else list)(self.group()))
        elif name == "FROZENSET":
            push(Unhashed(self.group()))
        elif name == "DICT":
            values = self.group()
            push(Table())
            self._set(values)
        elif name in ("APPEND", "APPENDS", "ADDITEMS"):
            self._append([self.pop()] if name == "APPEND" else self.group())
        elif name in ("SETITEM", "SETITEMS"):
            self._set([self.pop(), self.pop()][::-1] if name == "SETITEM" else self.group())
        elif name == "GLOBAL":
            push(self._global(*argument.split(" ", 1)))
        elif name == "STACK_GLOBAL":
            attribute, module = self.pop(), self.pop()
            push(self._global(module, attribute))
        elif name == "REDUCE":
            arguments, called = self.pop(), self.pop()
            push(self._call(called, arguments))
        elif name == "INST":
            push(self._call(self._global(*argument.split(" ", 1)), tuple(self.group())))
        elif name == "OBJ":
            called, *arguments = self.group()
            push(self._call(called, tuple(arguments)))
        elif name in ("NEWOBJ", "NEWOBJ_EX"):
            if name == "NEWOBJ_EX":
                self.pop()
            arguments, kind = self.pop(), self.pop()
            push(self._new(kind, arguments))
        elif name == "BUILD":
            self._build(self.pop())
        elif name == "BINPERSID":
            push(self.persistent(self.pop()))
        elif name in ("PROTO", "FRAME"):
            pass
        else:  # PERSID, EXT1, EXT2, EXT4, NEXT_BUFFER, READONLY_BUFFER
            raise Refused(f"uses '{name}', an operation that no checkpoint needs")

    def _top(self) -> Any:
        value = self.stack[-1]
        if value is Mark:
            raise Refused("is damaged (its pickle uses a value that does not exist)")
        return value

    def _append(self, values: list[Any]) -> None:
        target = self._top()
        if type(target) is Thing:
            return  # drop the elements of an unknown kind of list
        if not isinstance(target, list):
            raise Refused("is damaged (its pickle appends to something that is not a list)")
        target.extend(values)

    def _set(self, values: list[Any]) -> None:
        target = self._top()
        if type(target) is Thing:
            return  # drop the items of an unknown kind of dictionary
        if type(target) is not Table or len(values) % 2:
            raise Refused("is damaged (its pickle puts an item into something that is not a dictionary)")
        for key, value in zip(values[::2], values[1::2], strict=True):
            target.put(key, value)

    def _global(self, module: Any, name: Any) -> Global:
        if type(module) is not str or type(name) is not str:
            raise Refused("is damaged (the name of a class in it is not text)")
        named = Global(module, name)
        if named not in CALLS and named not in DATA and module.split(".", 1)[0] in STANDARD:
            raise Refused(f"names '{named}', which no checkpoint needs and which could run code", AGAIN)
        return named

    def _call(self, called: Any, arguments: Any) -> Any:
        """The data that a call stands for; nothing is called."""
        if type(called) is not Global or type(arguments) is not tuple:
            raise Refused("is damaged (it calls something that is not a function)")
        if called not in CALLS:
            raise refused_call(called)
        if called in RECONSTRUCTORS:
            if not arguments or type(arguments[0]) is not Global:
                raise Refused("is damaged (it creates an object without a class)")
            return self._new(arguments[0], arguments[1:])
        if called in DICTIONARIES:
            return self._dictionary(called, arguments)
        return self.rebuild(Thing(called, arguments))

    def _new(self, kind: Any, arguments: Any) -> Any:
        if type(kind) is not Global:
            raise Refused("is damaged (it creates an object without a class)")
        return Table() if kind in DICTIONARIES else Thing(kind, arguments)

    def _dictionary(self, kind: Global, arguments: tuple[Any, ...]) -> Table:
        """A dictionary, empty or (in old files) with a list of pairs."""
        made = Table()
        pairs = arguments[-1] if arguments and kind.name != "defaultdict" else ()
        for pair in pairs if isinstance(pairs, (list, tuple)) else ():
            self.spend(1)
            if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                raise Refused("is damaged (a dictionary in it does not consist of pairs)")
            made.put(*pair)
        return made

    def _build(self, state: Any) -> None:
        target = self._top()
        if type(target) is Thing:
            # a state with slots is a pair; only the attributes are of interest
            target.state = state[0] if type(state) is tuple and len(state) == 2 else state
        elif type(target) in (Global, tuple, list, str, bytes, bytearray, int, float, bool, type(None)):
            raise Refused("is damaged (its pickle sets the attributes of something that has none)")


def elements(values: Any) -> Sequence[Any]:
    """The elements of a set, list or tuple, written in any protocol; none if it is something else."""
    if type(values) is Thing and values.kind in SETS:
        values = values.arguments[0] if values.arguments else ()
    return values if isinstance(values, (list, tuple)) else ()
