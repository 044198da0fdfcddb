# SPDX-License-Identifier: Apache-2.0
"""Members of a pool: an object of the program's own, as the library calls it."""
from __future__ import annotations

import ctypes
import logging
import struct
import threading
import weakref
from typing import Any, Callable, Dict, Generic, Iterator, List, NamedTuple, Optional, TypeVar

from . import library
from .client import as_bytes
from .errors import InvalidError, StateError, error_for
from .library import END_MEMBER, Handle, load

SLOTS = 1024
FAILED = 1
_log = logging.getLogger("dlpool")
Value = TypeVar("Value")


class Key(NamedTuple):
    """A key: its text, and the slot to which it belongs for ever, 0 to 1023. A key of bytes that are no UTF-8 has the surrogates of
    os.fsdecode."""

    name: str
    slot: int


class Load(NamedTuple):
    """What a member has measured since it was asked ``wanted`` the last time: struct dlpool_load of dlpool.h."""

    members: int
    queued: int
    seconds: float
    busy_seconds: float
    cpu_seconds: float
    updates: int
    reads: int


class Map(Generic[Value]):
    """Values by key, for objects that keep one value for each key; it has save, load and drop of an object.

    dump  a value as bytes; None: it is bytes
    load  such bytes as a value. NumPy arrays: ``Map(np.ndarray.tobytes, lambda data: np.frombuffer(data).copy())``
    """

    def __init__(self, dump: Optional[Callable[[Value], bytes]] = None, load: Optional[Callable[[bytes], Value]] = None) -> None:
        self._dump, self._load = dump, load
        self._slots: List[Dict[str, Value]] = [{} for _ in range(SLOTS)]

    def __getitem__(self, key: Key) -> Value:
        return self._slots[key.slot][key.name]

    def __setitem__(self, key: Key, value: Value) -> None:
        self._slots[key.slot][key.name] = value

    def __delitem__(self, key: Key) -> None:
        del self._slots[key.slot][key.name]

    def __contains__(self, key: Key) -> bool:
        return key.name in self._slots[key.slot]

    def __len__(self) -> int:
        return sum(len(slot) for slot in self._slots)

    def __iter__(self) -> Iterator[Key]:
        for number, slot in enumerate(self._slots):
            for name in slot:
                yield Key(name, number)

    def get(self, key: Key, default: Any = None) -> Any:
        """The value of a key, or the default."""
        return self._slots[key.slot].get(key.name, default)

    def save(self, slot: int) -> bytes:
        """All keys of a slot as bytes."""
        parts: List[bytes] = []
        for name, value in self._slots[slot].items():
            data: Any = value if self._dump is None else self._dump(value)
            for part in (name.encode("utf-8", "surrogateescape"), data):
                parts += [struct.pack("<Q", len(part)), part]
        return b"".join(parts)

    def load(self, slot: int, state: bytes) -> None:
        """In place of what the slot held. Raises ValueError if these are not bytes of save()."""
        values, at, parts = {}, 0, []
        while at < len(state):
            size = struct.unpack_from("<Q", state, at)[0] if len(state) - at >= 8 else len(state)
            if len(state) - at - 8 < size:
                raise ValueError("the saved keys of a slot are cut short")
            parts.append(state[at + 8:at + 8 + size])
            at += 8 + size
        if len(parts) % 2 != 0:
            raise ValueError("the saved keys of a slot are cut short")
        for name, value in zip(parts[::2], parts[1::2]):
            values[name.decode("utf-8", "surrogateescape")] = value if self._load is None else self._load(value)
        self._slots[slot] = values  # type: ignore[assignment]

    def drop(self, slot: int) -> None:
        """Forgets all keys of the slot."""
        self._slots[slot] = {}


class Pool:
    """A member: this process's part of the pool of objects of one class. The object has

        apply(key, data) -> bytes   changes the state of one Key. Owner and copy each carry it out, in the same order, so that what it does
                                    and answers may depend on nothing but the state of the slot and its arguments: no clock, no random
                                    numbers. An exception leaves the state as it was
        read(key, data) -> bytes    changes nothing. Without it reads are refused
        save(slot) -> bytes         all keys of a slot, and back: in place of what the slot held
        load(slot, state)
        drop(slot)                  forgets all keys of the slot
        wanted(load) -> int         how many members the pool should have, judged from this object's own state; asked five times a second.
                                    Without it: as many as there are

    ``data`` and ``state`` are bytes. Answers are what Client.update() takes as data; None is b"". An object that has an attribute ``slots``
    of type Map needs no save, load and drop. ``wanted`` as an argument is used in place of the object's own; directory and secret_file are
    those of Client.

    What an exception does: of apply and read it becomes the error of the answer, "ValueError: …". Of save it leaves the slot where it is,
    and of wanted it counts as the members that there are; the logger "dlpool" warns with it. Of load and drop, and MemoryError of apply
    and what is no Exception, such as SystemExit, of any, it ends this member as if it had been killed, and serve() raises it.
    """

    def __init__(self, handler: Any, wanted: Optional[Callable[[Load], int]] = None, directory: Any = None, secret_file: Any = None) -> None:
        slots = getattr(handler, "slots", None)
        own = slots if isinstance(slots, Map) else None
        self._apply, self._read = _method(handler, "apply"), getattr(handler, "read", None)
        self._save, self._load, self._drop = (_method(handler, name, own) for name in ("save", "load", "drop"))
        self._wanted = wanted if wanted is not None else getattr(handler, "wanted", None)
        self._failure: Optional[BaseException] = None
        self._end, self._has_said = False, False
        self._handle, self._served = Handle("member"), False
        # The library copies the structure, and calls what it points to as long as the member exists.
        self._c_object = library.CObject(ctypes.sizeof(library.CObject), None, library.CALL(self._on_apply), library.CALL(self._on_read),
                                         library.SAVE(self._on_save), library.LOAD(self._on_load), library.DROP(self._on_drop),
                                         library.WANTED(self._on_wanted))
        options = library.options(directory, secret_file)
        library.check(load().dlpool_member_create(ctypes.byref(options), ctypes.byref(self._c_object), ctypes.byref(self._handle.pointer)))
        # Not when it has served, since another thread may just be calling leave().
        weakref.finalize(self, _destroy, self._handle)

    def serve(self) -> None:
        """Serves until this member may end: it was told to leave, or leave() was called, and its slots have moved; or the pool was closed.

        The object is called in a thread of its own, one call at a time, while this one waits; so signal handlers run at once, and what they
        raise, such as KeyboardInterrupt, ends this member as if it had been killed. Raises PeerError, ObjectError, StateError (it has
        served already), or the exception that ended the object.
        """
        handle = self._handle.check()
        if self._served:
            raise StateError("this member has served already; create another")
        self._served = True
        ended: List[Any] = []
        has_ended = threading.Event()  # join() of an interrupted thread may not wait any more (bpo-45274)

        def run() -> None:
            code = load().dlpool_member_serve(handle)
            ended.append((code, load().dlpool_error().decode(errors="replace")))
            has_ended.set()

        threading.Thread(target=run, name="dlpool", daemon=True).start()
        try:
            has_ended.wait()
        except BaseException:
            self._end = True  # the object is asked within 0.2 s what it wants, or has not joined and may leave
            load().dlpool_member_leave(handle)
            has_ended.wait()
            raise
        if self._failure is not None:
            raise self._failure
        code, sentence = ended[0]
        if code != 0:
            raise error_for(code, sentence)

    def leave(self) -> None:
        """Asks to leave; serve() then returns. The last member stays until another has joined. Any thread, any signal handler."""
        if self._handle.is_here() and self._handle.pointer:
            load().dlpool_member_leave(self._handle.pointer)

    # What the library calls. Nothing may be raised: ctypes would print it and answer as if nothing had been.

    def _on_apply(self, _: Any, slot: int, key: Any, key_size: int, data: Any, size: int, answer: Any) -> int:
        try:
            if self._end:
                return END_MEMBER
            said = self._apply(_key(slot, key, key_size), ctypes.string_at(data, size))
            return _put(answer, _checked(said, "apply"))
        except MemoryError as error:
            return self._ended(error, answer)
        except Exception as error:  # pylint: disable=broad-except
            return _put(answer, _sentence(error), FAILED)
        except BaseException as error:  # pylint: disable=broad-except
            return self._ended(error, answer)

    def _on_read(self, _: Any, slot: int, key: Any, key_size: int, data: Any, size: int, answer: Any) -> int:
        try:
            if self._end:
                return END_MEMBER
            if self._read is None:
                return _put(answer, b"this object cannot be read", FAILED)
            return _put(answer, _checked(self._read(_key(slot, key, key_size), ctypes.string_at(data, size)), "read"))
        except Exception as error:  # pylint: disable=broad-except
            return _put(answer, _sentence(error), FAILED)
        except BaseException as error:  # pylint: disable=broad-except
            return self._ended(error, answer)

    def _on_save(self, _: Any, slot: int, state: Any) -> int:
        try:
            if self._end:
                return END_MEMBER
            return _put(state, _checked(self._save(slot), "save"))
        except Exception as error:  # pylint: disable=broad-except
            _log.warning("slot %d cannot be saved, so it is neither copied nor moved now: %s", slot, _sentence(error).decode(), exc_info=True)
            return FAILED
        except BaseException as error:  # pylint: disable=broad-except
            return self._ended(error)

    def _on_load(self, _: Any, slot: int, state: Any, size: int, why: Any) -> int:
        try:
            if self._end:
                return END_MEMBER
            self._load(slot, ctypes.string_at(state, size))
            return 0
        except BaseException as error:  # pylint: disable=broad-except
            return self._ended(error, why)

    def _on_drop(self, _: Any, slot: int) -> None:
        try:
            self._drop(slot)
        except BaseException as error:  # pylint: disable=broad-except
            self._ended(error)
            self._end = True  # this function cannot say so

    def _on_wanted(self, _: Any, c_load: Any) -> int:
        members = 1
        try:
            if self._end:
                return END_MEMBER
            c = c_load.contents
            members = c.members
            if self._wanted is None:
                return members
            wanted = self._wanted(Load(c.members, c.queued, c.seconds, c.busy_seconds, c.cpu_seconds, c.updates, c.reads))
            return max(1, min(int(wanted), 4096))
        except Exception as error:  # pylint: disable=broad-except
            if not self._has_said:
                self._has_said = True
                _log.warning("wanted failed, and counts as the %d members that there are: %s", members, _sentence(error).decode(), exc_info=True)
            return members
        except BaseException as error:  # pylint: disable=broad-except
            return self._ended(error)

    def _ended(self, error: BaseException, answer: Any = None) -> int:
        if self._failure is None:
            self._failure = error
        if answer is not None:
            _put(answer, _sentence(error))
        return END_MEMBER


def _destroy(handle: Handle) -> None:
    load().dlpool_member_destroy(handle.take())


def _method(handler: Any, name: str, instead: Any = None) -> Any:
    method = getattr(handler, name, None) or getattr(instead, name, None)
    if not callable(method):
        raise InvalidError("an object of type %s has no method %s; allowed: an object with apply, save, load and drop, or with apply and an "
                           "attribute slots of type dlpool.Map" % (type(handler).__name__, name))
    return method


def _key(slot: int, key: Any, size: int) -> Key:
    return Key(ctypes.string_at(key, size).decode("utf-8", "surrogateescape"), slot)


def _checked(said: Any, what: str) -> bytes:
    return b"" if said is None else as_bytes(said, "what %s returned" % what)


def _sentence(error: BaseException) -> bytes:
    text = "%s: %s" % (type(error).__name__, error) if str(error) else type(error).__name__
    return text.encode("utf-8", "replace")


def _put(to: Any, data: bytes, result: int = 0) -> int:
    return result if load().dlpool_put(to, data, len(data)) == 0 or result != 0 else END_MEMBER
