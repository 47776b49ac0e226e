"""Models of histories: which checker `check --model NAME` asks, by the names that knossos and elle-cli give them."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

from checkers.bank import Bank
from checkers.counter import Counter
from checkers.elle.list_append import ListAppend
from checkers.elle.rw_register import RwRegister
from checkers.linearizability import models
from checkers.linearizability.linearizable import Linearizable
from checkers.linearizability.models import HistoryModel, Mutex, Register
from checkers.long_fork import LongFork
from checkers.set_full import SetFull
from checkers.unique_ids import UniqueIds
from checkers.weak_isolation.isolation import WeakIsolation
from harness.errors import PlanError
from harness.operations import JSON
from harness.protocols import Checker

__all__ = ["MODELS", "ModelOptions", "checker_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """What may be said of a model on the command line."""

    initial: str | None = None
    """JSON of the value before the first operation."""
    failed_cas: Literal["ignored", "informative"] = "ignored"
    null_reads: Literal["value", "unknown"] = "value"
    consistency_models: tuple[str, ...] = ()
    linearizable_keys: bool = False
    memory_bytes: int = 1 << 29

    def __post_init__(self) -> None:
        for name, known in (("failed_cas", ("ignored", "informative")), ("null_reads", ("value", "unknown"))):
            if getattr(self, name) not in known:
                option = name.replace("_", "-")
                raise PlanError(f'--{option} is {" or ".join(known)}, not "{getattr(self, name)}"')

    @property
    def levels(self) -> tuple[str, ...]:
        """The consistency models that transactions are asked about: the strictest, unless others are named."""
        return self.consistency_models or ("strict-serializable",)

    def start(self, kind: type, default: JSON) -> Any:
        """The initial value. Raises PlanError if it is no JSON, or not of that kind."""
        if self.initial is None:
            return default
        try:
            value = orjson.loads(self.initial)
        except orjson.JSONDecodeError:
            raise PlanError(f'--initial is JSON, and "{self.initial}" is none') from None
        if not isinstance(value, kind):
            raise PlanError(f"--initial {self.initial} cannot be the initial value of this model")
        return value


def _register(options: ModelOptions, *, swaps: bool) -> Register:
    return Register(
        start=options.start(object, None),
        swaps=swaps,
        failed_cas=options.failed_cas,
        null_reads=options.null_reads,
    )


def _linearizable(model: Register | Mutex | HistoryModel, options: ModelOptions) -> Any:
    return Linearizable(model=model, memory_bytes=options.memory_bytes)


_OBJECTS: Final[Mapping[str, Callable[[ModelOptions], Register | Mutex | HistoryModel]]] = {
    "register": lambda options: _register(options, swaps=False),
    "cas-register": lambda options: _register(options, swaps=True),
    "multi-register": lambda options: models.multi_register(options.start(dict, None), null_reads=options.null_reads),
    "mutex": lambda _: Mutex(),
    "fifo-queue": lambda _: models.fifo_queue(),
    "unordered-queue": lambda _: models.unordered_queue(),
    "set": lambda _: models.growing_set(),
    "counter": lambda options: models.counter(options.start(int, 0)),
}
"""Sequential objects, for `--checker linearizable`."""

_CHECKERS: Final[Mapping[str, Callable[[ModelOptions], Any]]] = {
    "set": lambda _: SetFull(),
    "set-full": lambda _: SetFull(),
    "counter": lambda options: Counter(start=options.start(int, 0)),
    "bank": lambda options: Bank(total=options.start(int, None), transfers_only=False),
    "long-fork": lambda _: LongFork(),
    "unique-ids": lambda _: UniqueIds(),
    "list-append": lambda options: ListAppend(models=options.levels),
    "rw-register": lambda options: RwRegister(models=options.levels, linearizable_keys=options.linearizable_keys),
    "read-committed": lambda _: WeakIsolation(models=("read-committed",)),
    "read-atomic": lambda _: WeakIsolation(models=("read-atomic",)),
    "causal": lambda _: WeakIsolation(models=("causal",)),
}
"""Models with a checker of their own, which is asked unless another one is named."""

MODELS: Final = tuple(sorted({*_OBJECTS, *_CHECKERS}))


def checker_of(model: str, *, checker: str | None, options: ModelOptions) -> Checker:
    """The checker for a model. `package.module:name` is a model of one's own, a value or a class of it.

    Raises PlanError for a model nobody knows, and for a checker that is not for it.
    """
    if ":" in model:
        of_own: Checker = _linearizable(_own_model(model), options)
        return of_own
    if model not in MODELS:
        raise PlanError(f'unknown model "{model}". Known: {", ".join(MODELS)}, or package.module:name.')
    # Checkers are frozen values, whose names are read; mypy would have the protocol's be assignable.
    own: Any = _CHECKERS[model](options) if model in _CHECKERS else None
    judge: Any = None
    if own is not None and checker in {None, own.name, model}:
        judge = own
    elif model in {"list-append", "rw-register"} and checker == "weak-isolation":
        judge = WeakIsolation(models=options.consistency_models or ("causal",))
    elif model in _OBJECTS and checker in {None, "linearizable"}:
        judge = _linearizable(_OBJECTS[model](options), options)
    if judge is not None:
        found: Checker = judge
        return found
    raise PlanError(f'checker "{checker}" does not judge the model "{model}"')


def _own_model(name: str) -> HistoryModel:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise PlanError(f'the model "{name}" cannot be loaded: {error}') from error
    model = found() if inspect.isclass(found) else found
    if not isinstance(model, HistoryModel):
        raise PlanError(f'"{name}" is no model: it lacks methods of checkers.linearizability.models.HistoryModel')
    return model
