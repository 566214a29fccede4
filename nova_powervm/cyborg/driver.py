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

"""Cyborg's driver for the slots of a PowerVM host.

cyborg-agent loads it as ``powervm`` in ``[agent]enabled_drivers``.
"""

import logging as levels
from collections.abc import Mapping
from typing import Any

from cyborg.accelerator.drivers import driver
from cyborg.conf import CONF
from oslo_log import log as logging

from nova_powervm import exception
from nova_powervm import inventory_file
from nova_powervm.conf import accelerators as options
from nova_powervm.cyborg import facts
from nova_powervm.cyborg import objects
from nova_powervm.cyborg import report as reports
from nova_powervm.cyborg import services
from nova_powervm.devices import accelerators
from nova_powervm.devices import matching
from nova_powervm.devices import policy as policies
from nova_powervm.devices import slots
from nova_powervm.powervm import session
from nova_powervm.powervm import system

LOG = logging.getLogger(__name__)

_NAME = 'powervm'


_COMPLAINTS = {
    'nova': "Nova's inventory file ([powervm]inventory_file) cannot be used "
    'now. What was read of it before stays in force; without that, a slot '
    'that is withheld stays withheld. %(complaint)s',
    'bound': 'Which accelerator requests exist is not known, so no slot is '
    'taken from Cyborg until it is. The user in [placement] of cyborg.conf '
    'needs the role admin. %(complaint)s',
    'unbindable': 'Whether requests can be bound to the slots is not known '
    'yet; the next period asks again. %(complaint)s',
}


class PowerVMDriver(driver.GenericDriver):
    """Reports the slots that Cyborg's file identifies.

    A restart loses nothing: what Cyborg has is read from Placement.

    :raises exception.ConfigurationError: An option or the file is invalid.
    """

    VENDOR = 'ibm'

    def __init__(self) -> None:
        options.register_opts(CONF)
        self._settings = options.read_settings(CONF.powervm)
        self._file = inventory_file.InventoryFile(
            self._settings.accelerator_file
        )
        _refuse_one_time_use(self._file.policy)
        self._system: system.RestSystem | None = None
        self._providers: services.HostProviders | None = None
        self._memory = reports.Memory()
        # DRC indexes of slots that Cyborg knows with their providers.
        self._bindable: frozenset[int] = frozenset()
        self._told: dict[int, str] = {}
        self._nova_policy: policies.Policy | None = None
        # The last complaint about each kind of trouble, to log it once.
        self._complaints: dict[str, str] = {}

    def discover(self) -> list[Any]:
        """Report all slots that belong to Cyborg, in use or not.

        Cyborg deletes the devices that the answer lacks. After an error it
        keeps what it has.

        :returns: Objects of class DriverDevice.
        :raises nova_powervm.exception.PowerVMError: The host or Placement
            does not answer.
        """
        report = self._keep_bound(
            reports.make_report(self._read_facts(), self._memory)
        )
        self._tell(report)
        self._memory = report.memory
        host, _ = self._host_providers.host
        return [
            objects.to_device(entry, host, _NAME) for entry in report.reported
        ]

    def update(self, control_path: object, image_path: object) -> bool:
        """Program no device: slots have no images."""
        return False

    def get_stats(self) -> dict[str, Any]:
        """Return no figures: the host has none for slots."""
        return {}

    @property
    def _host_providers(self) -> services.HostProviders:
        # The agent has no connection to Placement before its options are read.
        if self._providers is None:
            self._providers = services.HostProviders()
        return self._providers

    def _read_facts(self) -> facts.Facts:
        policy = self._file.refresh()
        # First the host: an instance is allocated a slot before it owns it.
        io_slots = self._read_slots()
        nova_policy = self._read_nova_policy()
        identified = {
            verdict.slot.drc_index
            for verdict in matching.judge(policy, io_slots)
            if verdict.paragraphs
        }
        providers, nova_providers = self._host_providers.read(identified)
        return facts.Facts(
            policy,
            nova_policy,
            io_slots,
            providers,
            nova_providers,
            self._find_unbindable(frozenset(providers)),
            publishes_locations=self._settings.publish_location_traits,
        )

    def _find_unbindable(self, indexes: frozenset[int]) -> frozenset[int]:
        """Find the slots that no request can be bound to.

        Cyborg's API is asked once for each slot that is new to this process.

        :param indexes: DRC indexes of the slots with a provider of Cyborg's.
        """
        self._bindable &= indexes
        if indexes <= self._bindable:
            return frozenset()
        host, _ = self._host_providers.host
        try:
            unbindable = services.find_unbindable_slots(host)
        except exception.CyborgUnanswered as error:
            self._complain('unbindable', str(error))
            return frozenset()
        self._complain('unbindable')
        self._bindable = indexes - unbindable
        return indexes & unbindable

    def _read_slots(self) -> tuple[slots.Slot, ...]:
        if self._system is None:
            server = self._settings.server
            self._system = system.RestSystem(session.connect(server), server)
        return self._system.read().io_slots

    def _read_nova_policy(self) -> policies.Policy | None:
        """Read Nova's inventory file; None if it never could be read.

        What was read last stays in force as in a running nova-compute: if the
        file cannot be used, or has lost its content.
        """
        try:
            policy = inventory_file.load(self._settings.inventory_file)
        except exception.PolicyInvalid as error:
            self._complain('nova', str(error))
            return self._nova_policy
        if policy.paragraphs or not self._nova_policy:
            self._nova_policy = policy
            self._complain('nova')
        else:
            self._complain('nova', f'{policy.source} has no paragraph.')
        return self._nova_policy

    def _complain(self, kind: str, complaint: str = '') -> None:
        """Log a complaint once, until it changes; without one, forget it."""
        if complaint and self._complaints.get(kind) != complaint:
            # A line of the log has all problems of a file.
            words = ' '.join(complaint.splitlines())
            LOG.warning(_COMPLAINTS[kind], {'complaint': words})
        self._complaints[kind] = complaint

    def _keep_bound(self, report: reports.Report) -> reports.Report:
        """Keep the slots that may have a request bound to them."""
        if not report.leaving:
            return report
        host, _ = self._host_providers.host
        bound: frozenset[str] | None = None
        try:
            bound = services.find_bound_providers()
            self._complain('bound')
        except exception.CyborgUnanswered as error:
            self._complain('bound', str(error))
        indexes = {
            entry.drc_index
            for entry in report.leaving
            if bound is None
            or objects.provider_uuid(host, entry.drc_index) in bound
        }
        return report.keep(indexes)

    def _tell(self, report: reports.Report) -> None:
        """Log each decision once, until it changes."""
        lines = _lines(report)
        for index, (level, text) in lines.items():
            if self._told.get(index) != text:
                LOG.log(level, text)
        self._told = {index: text for index, (_, text) in lines.items()}


def _refuse_one_time_use(policy: policies.Policy) -> None:
    paragraphs = accelerators.one_time_use_paragraphs(policy)
    if paragraphs:
        raise exception.ConfigurationError(
            reason=f'{policy.source}: {", ".join(map(str, paragraphs))} '
            'has one_time_use: true, but Cyborg offers a device again after '
            "its first use. Move it to Nova's inventory file."
        )


def _lines(report: reports.Report) -> Mapping[int, tuple[int, str]]:
    """Return level and text of the line about each slot."""
    skipped = {
        index: (
            levels.ERROR if reason.code in reports.MISTAKES else levels.INFO,
            f'{slot} is not reported: {reason}',
        )
        for index, (slot, reason) in report.skipped.items()
    }
    return skipped | {
        index: _line(entry) for index, entry in report.entries.items()
    }


def _line(entry: reports.Entry) -> tuple[int, str]:
    slot = entry.slot or f'slot {slots.format_drc_index(entry.drc_index)}'
    if entry.state is reports.State.OFFERED:
        return levels.INFO, f'{slot} is offered as {entry.resource_class}.'
    if entry.state is reports.State.REPAIRED:
        return levels.WARNING, (
            f'{slot} is left out of one report: Placement or Cyborg does not '
            'have what the last one said. The next one makes it again.'
        )
    if entry.state is reports.State.LEFT_OUT:
        return levels.WARNING, (
            f'{slot} is not reported any more: {entry.reason}. Cyborg deletes '
            'it.'
        )
    is_mistake = entry.reason and entry.reason.code in reports.MISTAKES
    return (
        levels.ERROR if is_mistake else levels.WARNING,
        f'{slot} is withheld: {entry.reason}',
    )
