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


def read_properties(wrapper, around=()):
    """Return the values of a wrapper's properties, by name.

    :param around: Types and elements of wrappers that contain it. Some
        contain themselves by way of another property.
    """
    around = (*around, _identity(wrapper))
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
        values[name] = _plain(value, around)
    return values


def _identity(wrapper):
    return type(wrapper), getattr(wrapper.element, 'element', None)


def _plain(value, around):
    if isinstance(value, entry_wrapper.Wrapper):
        if _identity(value) in around:
            return '...'
        return {type(value).__name__: read_properties(value, around)}
    if isinstance(value, str):
        return base.without_host(value)
    if isinstance(value, collections.abc.Mapping):
        return {key: _plain(item, around) for key, item in value.items()}
    if isinstance(value, collections.abc.Iterable):
        return [_plain(item, around) for item in value]
    return value
