# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Reads all property values of pypowervm's wrappers as plain values."""

import collections.abc
import inspect

from pypowervm.wrappers import entry_wrapper

from . import base

# Values that differ between readings: the server and its ETags.
_OF_THE_READING = frozenset(
    (
        'adapter',
        'entry',
        'element',
        'etag',
        'href',
        'related_href',
        'traits',
        'xags',
    )
)
# Wrappers that contain themselves by way of another property.
_DEEPEST = 12


def read_properties(wrapper, depth=0):
    """Return the values of a wrapper's properties, by name."""
    values = {}
    for name, _ in inspect.getmembers(
        type(wrapper), lambda member: isinstance(member, property)
    ):
        if name.startswith('_') or name in _OF_THE_READING:
            continue
        try:
            value = getattr(wrapper, name)
        except Exception as error:
            value = f'{type(error).__name__}: {error}'
        values[name] = _plain(value, depth + 1)
    return values


def _plain(value, depth):
    if depth > _DEEPEST:
        return '...'
    if isinstance(value, entry_wrapper.Wrapper):
        return {type(value).__name__: read_properties(value, depth)}
    if isinstance(value, str):
        return base.without_host(value)
    if isinstance(value, collections.abc.Mapping):
        return {key: _plain(item, depth) for key, item in value.items()}
    if isinstance(value, collections.abc.Iterable):
        return [_plain(item, depth) for item in value]
    return value
