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

"""Starts nova-computes that are forked from a process with Nova's modules.

    python -m tests.cloud.forked_computes FILE

FILE is the configuration of a nova-compute: Nova reads the intervals of its
periodic tasks when it is imported.
Most of the time that a nova-compute takes to start is spent on imports. Each
line of standard input is the configuration file of a nova-compute and the
file for its output, in JSON. The answer is the id of its process.
"""

import importlib
import json
import os
import signal
import sys

import nova.conf

_MODULES = (
    'nova.cmd.compute',
    'nova.compute.manager',
    'nova.conductor.manager',
    'nova.virt.powervm_ext.driver',
    'nova.network.neutron',
    'nova.image.glance',
    'nova.scheduler.client.report',
    'demo.messaging.driver',
    'nova_powervm.powervm.disk.ssp',
    'neutronclient.v2_0.client',
    'glanceclient.v2.client',
    'openstack.connection',
)


def run(options, output):
    """Be a nova-compute; never return."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for standard in (sys.stdout, sys.stderr):
        os.dup2(descriptor, standard.fileno())
    sys.argv = ['nova-compute', '--config-file', options]
    sys.modules['nova.cmd.compute'].main()
    sys.exit()


def main():
    """Start a nova-compute for each line."""
    nova.conf.CONF(['--config-file', sys.argv[1]], project='nova')
    for module in _MODULES:
        importlib.import_module(module)
    # So that nova-compute can read its options.
    nova.conf.CONF.reset()
    # Nobody waits for a child that was killed.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            run(*json.loads(line))
        print(child, flush=True)


if __name__ == '__main__':
    main()
