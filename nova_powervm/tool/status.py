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

"""The command ``nova-powervm-status``."""

import functools
import os
import sys
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from nova_powervm import exception
from nova_powervm.devices import names
from nova_powervm.devices import policy as policies
from nova_powervm.inventory_file import load
from nova_powervm.tool import checks
from nova_powervm.tool import services
from nova_powervm.tool.inventory import cloud
from nova_powervm.tool.inventory import config

#: Something that this command did not expect.
UNEXPECTED = 255


def _expecting(
    check: Callable[['Checks'], upgradecheck.Result],
) -> Callable[['Checks'], upgradecheck.Result]:
    """Make a check fail with the error's own line, not with a traceback."""

    @functools.wraps(check)
    def wrapper(self: 'Checks') -> upgradecheck.Result:
        try:
            return check(self)
        except checks.EXPECTED as error:
            return checks.failure(error)

    return wrapper


class Checks(upgradecheck.UpgradeCommands):
    """Is all ready for this version of the driver?

    :param conf: The configuration; it is read when the command line is.
    """

    display_title = 'nova-powervm Upgrade Check Results'

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._config = config.Config(conf, ())

    @functools.cached_property
    def _policy(self) -> policies.Policy:
        return load(self._config.inventory_file)

    @functools.cached_property
    def _look(self) -> checks.Host | exception.PowerVMError:
        """What one look at the host came to: it is not waited for twice."""
        try:
            return checks.look_at_host(self._config)
        except exception.PowerVMError as error:
            return error

    @property
    def _host(self) -> checks.Host:
        if isinstance(self._look, exception.PowerVMError):
            raise self._look
        return self._look

    @functools.cached_property
    def _placement(self) -> cloud.Placement:
        return cloud.connect(self._config.conf)

    @_expecting
    def _inventory_file(self) -> upgradecheck.Result:
        return checks.inventory_file(self._policy)

    @_expecting
    def _rest(self) -> upgradecheck.Result:
        return checks.ok(f'{self._host.slots} slots at {self._host.server}')

    @_expecting
    def _ownership(self) -> upgradecheck.Result:
        return checks.ownership(self._host)

    @_expecting
    def _placement_release(self) -> upgradecheck.Result:
        return checks.placement_release(self._placement, self._policy)

    @_expecting
    def _compute_versions(self) -> upgradecheck.Result:
        return services.check(self._config.conf.config_file or ())

    @_expecting
    def _short_names(self) -> upgradecheck.Result:
        return checks.short_names(
            self._placement.named(names.PROVIDER_PREFIX),
            self._config.settings.provider_names,
        )

    @_expecting
    def _candidates(self) -> upgradecheck.Result:
        files = cfg.find_config_files(project='placement', prog='placement')
        return checks.candidates(
            self._placement.tree(self._config.nodename),
            [path for path in files if os.access(path, os.R_OK)],
        )

    _upgrade_checks: tuple[Any, ...] = (
        ('Inventory file', _inventory_file),
        ('PowerVM REST API', _rest),
        ('Owners of slots', _ownership),
        ('Placement', _placement_release),
        ('Nova service versions', _compute_versions),
        ('Names of providers', _short_names),
        ('Candidates for many devices', _candidates),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command ``nova-powervm-status``.

    :param argv: The arguments; those of the process by default.
    :returns: 0 if all is ready, 1 for warnings, 2 for failures, 255 if the
        checks could not be run.
    """
    conf = config.declare()
    try:
        return int(
            upgradecheck.main(
                conf,
                'nova',
                Checks(conf),
                list(sys.argv[1:] if argv is None else argv),
                config.default_files(),
            )
        )
    except cfg.Error as error:
        print(f'nova-powervm-status: {error}', file=sys.stderr)
        return UNEXPECTED
