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

"""What ``flavor create`` prints."""

from tests.unit.tool.inventory import base


class FlavorCreateTest(base.ToolTestCase):
    def test_comment_registers_one_limit_for_each_class(self):
        crypto = 'crypto: {identification: {vendor_id: "1014"}}'
        file = self.write('inventory.yaml', f'{base.GPUS}{crypto}\n')
        result = self.succeed(
            *('flavor', 'create', 'mixed', '--file', file, '--count', '2'),
            *('--paragraph', 'gpus', '--paragraph', 'crypto'),
        )
        command, comment = result.out.split('\n#', 1)
        self.assertIn('resources4:', command)
        register = (
            '# openstack registered limit create --service nova '
            '--region "$OS_REGION_NAME" --default-limit 0 class:'
        )
        self.assertEqual(
            [f'{register}CUSTOM_GPU', f'{register}CUSTOM_IOSLOT'],
            comment.splitlines()[1:],
        )

    def test_processors_of_its_own_are_counted_by_placement(self):
        specs = ('--extra-spec', 'powervm:dedicated_proc=true')
        result = self.succeed(
            *('flavor', 'create', '--print', '--vcpus', '3', *specs)
        )

        self.assertEqual(
            ['powervm:dedicated_proc=true', 'resources:VCPU=12'],
            result.out.splitlines(),
        )
        result = self.run_tool('flavor', 'create', '--print', *specs)
        self.assertEqual(1, result.status)
        self.assertIn('with --vcpus', result.err)

    def test_refused_extra_spec_is_not_printed(self):
        for spec, vcpus, words in (
            ('powervm:proc_unit=1', '3', 'did you mean powervm:proc_units?'),
            ('hw:numa_nodes=2', '3', 'does not begin with powervm:'),
            # The library says why, on its own.
            ('powervm:proc_units=1', '0', ''),
        ):
            with self.subTest(spec=spec):
                result = self.run_tool(
                    *('flavor', 'create', '--print', '--vcpus', vcpus),
                    *('--extra-spec', spec),
                )

                self.assertNotEqual(0, result.status)
                self.assertEqual('', result.out)
                self.assertIn(words, result.err)
