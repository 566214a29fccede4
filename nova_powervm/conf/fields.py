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

"""Options as the fields of dataclasses, so that each is said once.

A field has the type of its option's value and the arguments of the option: an
object made without a value for it has the option's default.
"""

import dataclasses
import functools
from collections.abc import Callable
from collections.abc import Iterator
from typing import TYPE_CHECKING
from typing import Any
from typing import TypeVar

from oslo_config import cfg

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Settings = TypeVar('_Settings', bound='DataclassInstance')


def option(
    kind: Callable[..., cfg.Opt],
    name: str = '',
    *,
    parse: Callable[[Any], Any] = lambda value: value,
    **about: Any,
) -> Any:
    """Make the field of an option, whose value is not shown if it is secret.

    :param kind: The class of the option.
    :param name: The option's name, if it is not that of the field.
    :param parse: Makes the field's value from the option's.
    :param about: Further arguments of the class.
    """
    return dataclasses.field(
        default_factory=lambda: parse(about.get('default')),
        repr=not about.get('secret'),
        metadata={
            'make': functools.partial(kind, **about),
            'name': name,
            'parse': parse,
        },
    )


def options_of(settings: type['DataclassInstance']) -> Iterator[cfg.Opt]:
    """Yield the options of a dataclass, and of the dataclasses in it."""
    for field in dataclasses.fields(settings):
        if inner := _dataclass_of(field):
            yield from options_of(inner)
        elif field.metadata:
            yield field.metadata['make'](field.metadata['name'] or field.name)


def read(settings: type[_Settings], group: Any, **others: Any) -> _Settings:
    """Read the options of a dataclass.

    :param settings: The dataclass.
    :param group: The group that has the options, such as ``CONF.powervm``.
    :param others: Values of fields that are not read.
    """
    values = dict(others)
    for field in dataclasses.fields(settings):
        if field.name in others:
            continue
        if inner := _dataclass_of(field):
            values[field.name] = read(inner, group)
        elif field.metadata:
            value = getattr(group, field.metadata['name'] or field.name)
            values[field.name] = field.metadata['parse'](value)
    return settings(**values)


def _dataclass_of(
    field: dataclasses.Field[Any],
) -> type['DataclassInstance'] | None:
    if isinstance(field.type, type) and dataclasses.is_dataclass(field.type):
        return field.type
    return None


def register(
    conf: cfg.ConfigOpts, group: cfg.OptGroup, options: list[cfg.Opt]
) -> None:
    """Register the options of a group; a configuration may have them."""
    # oslo.config copies a group, but not the values that it holds: an override
    # would apply to all configurations that share the group object.
    conf.register_group(cfg.OptGroup(group.name, group.title, group.help))
    conf.register_opts(options, group=group.name)
