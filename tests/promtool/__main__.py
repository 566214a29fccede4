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

"""Has promtool check the alert rules, their tests and the dashboard.

Usage: python -m tests.promtool [PROMTOOL]
"""

import pathlib
import subprocess
import sys
import tempfile

import yaml

from tests.promtool import queries

TESTS = pathlib.Path(__file__).with_name('rules_test.yml')


def dashboard_tests():
    """Return a test in which each query of the dashboard has a result."""
    series = [
        {
            'series': sample.name + _braced(sample.labels),
            'values': f'{sample.value}x10',
        }
        for sample in queries.recorded()
    ]
    return {
        'evaluation_interval': '1m',
        'tests': [
            {
                'interval': '1m',
                'input_series': series,
                'promql_expr_test': [
                    # It has no result if the query has one.
                    {
                        'expr': f'absent({query})',
                        'eval_time': '5m',
                        'exp_samples': [],
                    }
                    for query in queries.dashboard_queries()
                ],
            }
        ],
    }


def _braced(labels):
    return '{' + ', '.join(f'{k}="{v}"' for k, v in labels.items()) + '}'


def main(promtool='promtool'):
    """Run all checks; return the number of those that failed."""
    with tempfile.TemporaryDirectory() as directory:
        made = pathlib.Path(directory, 'dashboard_test.yml')
        made.write_text(yaml.safe_dump(dashboard_tests()))
        failed = 0
        for arguments, given in (
            (('check', 'metrics'), queries.RECORDED.read_text()),
            (('check', 'rules', queries.RULES), None),
            (('test', 'rules', TESTS), None),
            (('test', 'rules', made), None),
        ):
            print('promtool', *arguments, flush=True)
            done = subprocess.run(
                [promtool, *arguments], input=given, text=True, check=False
            )
            failed += done.returncode != 0
    return failed


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
