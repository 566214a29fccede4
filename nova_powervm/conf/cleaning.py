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

"""Options in the group ``[powervm_clean]``, of nova-powervm-clean alone."""

import dataclasses
import shlex
from typing import Any

from oslo_config import cfg

from nova_powervm import exception
from nova_powervm.conf import fields

GROUP = cfg.OptGroup(
    'powervm_clean',
    title='Cleaning of one-time-use devices',
    help='Options for nova-powervm-clean. nova-compute does not read them.',
)


def parse_program(program: str | None) -> tuple[str, ...]:
    """Split the option ``program`` into words.

    :raises exception.ConfigurationError: The program is missing, or its words
        cannot be split.
    """
    option = f'[{GROUP.name}]program'
    try:
        words = tuple(shlex.split(program or ''))
    except ValueError as error:
        raise exception.ConfigurationError(
            reason=f'{option} = {program}: {error}. Quote each word that has '
            'blanks or quotes, as in a shell.'
        ) from error
    if not words:
        raise exception.ConfigurationError(
            reason=f'{option} is not set in nova.conf. Name the program that '
            'cleans a device.'
        )
    return words


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """The options, as values that have been checked."""

    program: tuple[str, ...] = fields.option(
        cfg.StrOpt,
        parse=parse_program,
        help="""
Program that cleans one device, with its arguments. It is required.

The words are split as by a shell, but no shell runs. The page "Cleaning" of
the documentation says what the program has to do.
""",
    )
    partition: str | None = fields.option(
        cfg.StrOpt,
        help="""
Name of the partition that the program assigns slots to.

A slot that this partition owns is cleaned again: the program may have been
killed before it could give the slot back. If this option is unset, a slot that
any partition owns is left alone until an operator frees it.
""",
    )
    attempts: int = fields.option(
        cfg.IntOpt,
        default=3,
        min=1,
        help="""
Number of failed attempts after which a device is put in quarantine, with the
reason CLEANING.
""",
    )
    time_limit: int = fields.option(
        cfg.IntOpt,
        default=3600,
        min=1,
        help="""
Seconds that the program has for one device.

Then it is stopped, with all processes that it has started, and the attempt has
failed.
""",
    )
    interval: int = fields.option(
        cfg.IntOpt,
        default=300,
        min=1,
        help="""
Seconds from the end of one pass over all devices to the next one. It has no
effect with ``--once``.
""",
    )
    listen_for_deletions: bool = fields.option(
        cfg.BoolOpt,
        default=False,
        help="""
Whether Nova's notification of a deleted server starts a pass, too.

Related options:

* ``[notifications]notification_format`` of nova-compute has to be
  ``versioned`` or ``both``.
* ``[oslo_messaging_notifications]driver`` of nova-compute has to be
  ``messagingv2``.
* ``[notifications]versioned_notifications_topics``: the first topic is used.
""",
    )
    state_directory: str = fields.option(
        cfg.StrOpt,
        default='/var/lib/nova-powervm-clean',
        help="""
Directory of the lock that keeps a second nova-powervm-clean out, and of the
file that counts failed attempts. It has to be on a local file system.
""",
    )


OPTIONS = [*fields.options_of(Settings)]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options with a configuration."""
    fields.register(conf, GROUP, OPTIONS)


def list_opts() -> list[tuple[str, list[Any]]]:
    """Return the options for oslo.config's generator and documentation."""
    return [(GROUP.name, OPTIONS)]


def read_settings(group: Any) -> Settings:
    """Read and check the values of a ``[powervm_clean]`` group.

    :param group: ``CONF.powervm_clean``.
    :raises exception.ConfigurationError: The program is missing, or its words
        cannot be split.
    """
    return fields.read(Settings, group)
