#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""grafana_schema.py DASHBOARD.json...: what of a dashboard does not fit Grafana's own schema: members that it does not know, and values of another
type. The schema is that which Grafana publishes as classes of Python, in the package grafana-foundation-sdk: an object is made of the
dashboard, each attribute is compared with its declared type, and what is written from the object again must have all that was read.
"""
import enum
import json
import sys
import types
import typing

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

def fits(value, hint):
    """Whether a value is of a declared type. Types that say nothing fit all."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is typing.Any or isinstance(hint, typing.TypeVar):
        return True
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, one) for one in inner)
    if origin is typing.Literal:
        return value in inner
    if origin is list:
        return isinstance(value, list) and all(fits(one, inner[0]) for one in value)
    if origin is dict:
        return isinstance(value, dict) and all(fits(one, inner[1]) for one in value.values())
    if not isinstance(hint, type):
        return True
    if issubclass(hint, enum.Enum):
        return any(value == one.value for one in hint)
    if isinstance(value, dict) and hasattr(hint, "from_json"):  # the package leaves some as they were read
        made = hint.from_json(value)
        return not any(wrong_types(made, "")) and not any(unknown_members(value, as_written(made), ""))
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint) or hint is object


def as_written(made):
    return json.loads(json.dumps(made, cls=JSONEncoder))


def wrong_types(thing, where):
    if isinstance(thing, list):
        for number, one in enumerate(thing):
            yield from wrong_types(one, "%s[%d]" % (where, number))
    elif isinstance(thing, dict):
        for name, one in thing.items():
            yield from wrong_types(one, "%s.%s" % (where, name))
    elif type(thing).__module__.startswith("grafana_foundation_sdk."):
        hints = typing.get_type_hints(type(thing))
        for name, value in vars(thing).items():
            if name in hints and not fits(value, hints[name]):
                yield "%s.%s is %r, which is no %s" % (where, name, value, hints[name])
            yield from wrong_types(value, "%s.%s" % (where, name))


def unknown_members(read, written, where):
    if isinstance(read, dict):
        for name, value in read.items():
            if not isinstance(written, dict) or (name not in written and value is not None):
                yield "%s.%s is not known to Grafana" % (where, name)
            elif name in written:
                yield from unknown_members(value, written[name], "%s.%s" % (where, name))
    elif isinstance(read, list):
        if not isinstance(written, list) or len(written) != len(read):
            yield "%s is no list of so many" % where
        else:
            for number, (one, other) in enumerate(zip(read, written)):
                yield from unknown_members(one, other, "%s[%d]" % (where, number))
    elif read != written:
        yield "%s is %r, and is written as %r" % (where, read, written)


def faults(read):
    made = Dashboard.from_json(read)
    yield from wrong_types(made, "dashboard")
    yield from unknown_members(read, as_written(made), "dashboard")


def main():
    register_default_plugins()
    wrong = False
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            for fault in faults(json.load(file)):
                print("%s: %s" % (path, fault))
                wrong = True
    return 1 if wrong or len(sys.argv) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
