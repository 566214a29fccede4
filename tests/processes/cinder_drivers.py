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


"""Shows the connectors of hosts to the Fibre Channel drivers of Cinder.

A process of its own, without Nova. It reads JSON from standard input: the
``connectors``, and ``tests`` of Cinder's. It prints what each driver says of
the first connector (``refused``), what helpers of drivers make of each
(``made``), what drivers have returned for the hosts of those tests
(``connected``), and which tests ``failed``: their simulators and recorded
answers are the arrays.
"""

# ruff: noqa: E402
import os

# Before all imports of Cinder, which would bring in eventlet otherwise.
os.environ['OS_CINDER_DISABLE_EVENTLET_PATCHING'] = 'true'

from cinder import monkey_patch

monkey_patch.patch()

import collections
import functools
import importlib
import inspect
import json
import pathlib
import re
import sys
import types
import unittest

import cinder
from cinder import objects

_DRIVERS = pathlib.Path(cinder.__file__).parent / 'volume' / 'drivers'
_TESTS = 'cinder.tests.unit.volume.drivers.'
#: What a module with a driver has.
_CONNECTS = re.compile(r'initialize_connection|class \w+FC\w*Driver')
#: What connects a volume; NetApp and NEC have one for each protocol.
_CONNECT = (
    'initialize_connection',
    'initialize_connection_fc',
    '_fc_initialize_connection',
)


def load(name):
    """Return a module of a driver."""
    return importlib.import_module(f'cinder.volume.drivers.{name}')


def classes():
    """Yield the classes of all drivers.

    Cinder's own look-up leaves out what it cannot import, and folders without
    ``__init__.py``.
    """
    for path in sorted(_DRIVERS.rglob('*.py')):
        if _CONNECTS.search(path.read_text()):
            name = path.relative_to(_DRIVERS).with_suffix('')
            module = load('.'.join(name.parts))
            for _, found in inspect.getmembers(module, inspect.isclass):
                if found.__module__ == module.__name__:
                    yield found


def refusal(driver, connector):
    """Return why a driver refuses a connector; empty if it does not."""
    instance = driver.__new__(driver)
    instance._protocol = 'FC'
    try:
        instance.validate_connector(connector)
    except Exception as error:
        return str(error)
    return ''


def refusals(connector):
    """Return the answer of each driver for Fibre Channel."""
    return {
        found.__name__: refusal(found, connector)
        for found in classes()
        if re.search('FC|FibreChannel|Infinibox', found.__name__)
        and hasattr(found, 'validate_connector')
        and hasattr(found, 'initialize_connection')
    }


def makings(connector):
    """Return what helpers of drivers make of a connector."""
    ds8k = types.SimpleNamespace(backend={'host_type_override': None})
    by_initiator = types.SimpleNamespace(unique_fqdn_network=False)
    return {
        'unity': load('dell_emc.unity.utils').extract_fc_uids(connector),
        'powerstore': load('dell_emc.powerstore.utils').extract_fc_wwpns(
            connector
        ),
        'vnx': load('dell_emc.vnx.adapter')
        .FCAdapter.build_host(None, connector)
        .initiators,
        'ds8k': load('ibm.ibm_storage.ds8k_helper')
        .DS8KCommonHelper._get_host(ds8k, connector)
        .type,
        '3par': load('hpe.hpe_3par_common').HPE3PARCommon._safe_hostname(
            None, connector, by_initiator
        ),
        'kaminario': load(
            'kaminario.kaminario_common'
        ).KaminarioCinderDriver.get_initiator_host_name(
            types.SimpleNamespace(configuration=by_initiator), connector
        ),
    }


class Answers:
    """What drivers answer in tests that name other connectors."""

    def __init__(self, connectors):
        self._connectors = connectors
        self._hosts = []
        self._test = ''
        self.found = collections.defaultdict(list)
        self.failed = []

    def listen(self):
        """Have all drivers be shown the connectors."""
        for found in classes():
            for name in _CONNECT:
                if name in vars(found):
                    setattr(found, name, self._shown(vars(found)[name]))

    def _shown(self, connect):
        @functools.wraps(connect)
        def shown(driver, volume, connector, *rest, **options):
            # The array of the test knows these.
            known = {'wwpns': connector['wwpns'], 'wwnns': connector['wwpns']}
            if 'host' in connector:
                known['host'] = connector['host']
            # The test disconnects with it, too.
            connector.update(self._of(known) | known)
            try:
                answer = connect(driver, volume, connector, *rest, **options)
            except Exception as error:
                self.found[self._test].append(str(error))
                raise
            if isinstance(answer, dict):
                self.found[self._test].append(answer['data'])
            return answer

        return shown

    def _of(self, known):
        """Return the connector that a host of the test has."""
        if known.get('host') not in self._hosts:
            self._hosts.append(known.get('host'))
        return self._connectors[self._hosts.index(known.get('host'))]

    def run(self, test):
        """Run a test of Cinder's, and note whether it fails."""
        self._test, self._hosts = test, []
        found = unittest.defaultTestLoader.loadTestsFromName(_TESTS + test)
        result = unittest.TestResult()
        found.run(result)
        if not result.wasSuccessful():
            self.failed.append(test)


def main():
    """Answer the request."""
    request = json.load(sys.stdin)
    connectors, tests = request['connectors'], request['tests']
    objects.register_all()
    for test in tests:
        # They bring clients of arrays, which drivers look for when imported.
        importlib.import_module(_TESTS + test.rsplit('.', 2)[0])
    answer = {
        'refused': refusals(connectors[0]),
        'made': [makings(one) for one in connectors],
    }
    answers = Answers(connectors)
    answers.listen()
    for test in tests:
        answers.run(test)
    answer |= {'connected': answers.found, 'failed': answers.failed}
    json.dump(answer, sys.stdout, default=str)


if __name__ == '__main__':
    main()
