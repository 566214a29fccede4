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

"""Command ``nova-powervm-status``."""

import functools
import os
import sys
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import TypeVar

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from nova_powervm import exception
from nova_powervm.conf import powervm as options
from nova_powervm.devices import policy as policies
from nova_powervm.inventory_file import load
from nova_powervm.tool import errors
from nova_powervm.tool import nova_service_versions
from nova_powervm.tool import upgrade_checks
from nova_powervm.tool import version
from nova_powervm.tool.inventory import config
from nova_powervm.tool.inventory import host_reader
from nova_powervm.tool.inventory import placement_client

NAME = 'nova-powervm-status'
#: Exit code if the checks could not be run.
UNEXPECTED = 255

_OPTIONS = 'Options'
_FILE = 'Inventory file'
_REST = 'PowerVM REST API'
_PLACEMENT = 'Placement'

_T = TypeVar('_T')


def _expecting(
    check: Callable[['Checks'], upgradecheck.Result],
) -> Callable[['Checks'], upgradecheck.Result]:
    """Report an expected error as the result of a check."""

    @functools.wraps(check)
    def wrapper(self: 'Checks') -> upgradecheck.Result:
        try:
            return check(self)
        except upgrade_checks.NotChecked as error:
            return upgrade_checks.warning(str(error))
        except upgrade_checks.EXPECTED as error:
            return upgrade_checks.failure(error)

    return wrapper


def _attempt(read: Callable[[], _T]) -> _T | Exception:
    """Read data that several checks need; return an expected error."""
    try:
        return read()
    except (*upgrade_checks.EXPECTED, upgrade_checks.NotChecked) as error:
        return error


def _own(outcome: _T | Exception) -> _T:
    """Return data to the check that reports the error of reading it."""
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _needed(outcome: _T | Exception, check: str) -> _T:
    """Return data to a check that does not report the error of reading it.

    :raises upgrade_checks.NotChecked: It could not be read.
    """
    if isinstance(outcome, Exception):
        raise upgrade_checks.NotChecked(check) from outcome
    return outcome


class Checks(upgradecheck.UpgradeCommands):
    """Checks that a host and its cloud are ready for this version.

    An error is reported by one check only. Other checks that depend on the
    same data are warnings that name this check.

    :param conf: The configuration, which is read after this call.
    """

    display_title = 'nova-powervm Upgrade Check Results'

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._config = config.Config(conf, ())

    # Data that is read once, or the error of reading it

    @functools.cached_property
    def _settings(self) -> options.Settings | Exception:
        return _attempt(lambda: self._config.settings)

    @functools.cached_property
    def _policy(self) -> policies.Policy | Exception:
        return _attempt(lambda: load(self._config.inventory_file))

    @functools.cached_property
    def _host(self) -> host_reader.HostReading | Exception:
        return _attempt(
            lambda: upgrade_checks.read_host(
                _needed(self._settings, _OPTIONS).server
            )
        )

    @functools.cached_property
    def _placement(self) -> upgrade_checks.PlacementSummary | Exception:
        return _attempt(
            lambda: upgrade_checks.read_placement(
                placement_client.connect_placement(self._config.conf)
            )
        )

    # The checks

    @_expecting
    def _options(self) -> upgradecheck.Result:
        _own(self._settings)
        return upgrade_checks.success()

    @_expecting
    def _inventory_file(self) -> upgradecheck.Result:
        return upgrade_checks.check_inventory_file(_own(self._policy))

    @_expecting
    def _rest(self) -> upgradecheck.Result:
        host = _own(self._host)
        slots = len(host.system.io_slots)
        return upgrade_checks.success(f'{slots} slots at {host.source}')

    @_expecting
    def _ownership(self) -> upgradecheck.Result:
        return upgrade_checks.check_slot_ownership(_needed(self._host, _REST))

    @_expecting
    def _placement_release(self) -> upgradecheck.Result:
        newest = _own(self._placement).max_microversion
        if isinstance(self._policy, Exception):
            return upgrade_checks.check_placement_release(newest, None)
        return upgrade_checks.check_placement_release(newest, self._policy)

    @_expecting
    def _compute_versions(self) -> upgradecheck.Result:
        return nova_service_versions.check_service_versions(
            self._config.conf.config_file or ()
        )

    @_expecting
    def _short_names(self) -> upgradecheck.Result:
        return upgrade_checks.check_provider_names(
            _needed(self._placement, _PLACEMENT).slot_providers,
            _needed(self._settings, _OPTIONS).provider_names,
        )

    @_expecting
    def _candidates(self) -> upgradecheck.Result:
        placement = _needed(self._placement, _PLACEMENT).client
        node = self._config.nodename
        try:
            tree = placement.tree(node)
        except errors.NodeUnknown:
            return upgrade_checks.success(
                f"Placement has no provider '{node}' yet. Run this command "
                'again after nova-compute has started.'
            )
        files = cfg.find_config_files(project='placement', prog='placement')
        return upgrade_checks.check_candidate_limits(
            tree, [path for path in files if os.access(path, os.R_OK)]
        )

    @_expecting
    def _scheduler_filter(self) -> upgradecheck.Result:
        return upgrade_checks.check_scheduler_filter(self._config.conf)

    _upgrade_checks: tuple[Any, ...] = (
        (_OPTIONS, _options),
        (_FILE, _inventory_file),
        (_REST, _rest),
        ('Owners of slots', _ownership),
        (_PLACEMENT, _placement_release),
        ('Nova service versions', _compute_versions),
        ('Names of providers', _short_names),
        ('Candidates for many devices', _candidates),
        ('Several servers at once', _scheduler_filter),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command ``nova-powervm-status``.

    :param argv: The arguments; those of the process by default.
    :returns: 0 if all checks passed, 1 for warnings, 2 for failures, 255 if
        the checks could not be run.
    """
    conf = config.declare_options()
    upgradecheck.register_cli_options(conf, Checks(conf))
    try:
        config.parse_config(
            conf,
            list(sys.argv[1:] if argv is None else argv),
            config.default_files(),
            config.default_dirs(),
            prog=NAME,
            version=version.describe_version(NAME),
        )
    except (cfg.Error, exception.ConfigurationError) as error:
        print(f'{NAME}: {error}', file=sys.stderr)
        return UNEXPECTED
    # The library reads --json from here. Its main() has no --version.
    upgradecheck.CONF = conf
    return int(upgradecheck.run(conf))
