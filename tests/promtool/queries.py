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

"""What the alert rules and the dashboard ask, and a recorded answer."""

import json
import pathlib

import yaml
from prometheus_client import parser

ROOT = pathlib.Path(__file__).parents[2]
RECORDED = pathlib.Path(__file__).with_name('recorded.prom')
RULES = ROOT / 'etc' / 'prometheus' / 'powervm.rules.yml'


def samples(text):
    """Return the samples of an exposition; refuse a bad format."""
    return [
        sample
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    ]


def recorded():
    """Return the samples of the command and of nova-compute."""
    return samples(RECORDED.read_text())


def dashboard_queries():
    """Return the queries of the dashboard, for all hosts."""
    text = (ROOT / 'etc' / 'grafana' / 'powervm.json').read_text()
    return [
        target['expr'].replace('$host', '.*')
        for panel in json.loads(text)['panels']
        for target in panel['targets']
    ]


def alert_queries():
    """Return the expressions of the alert rules, by the name of the alert."""
    return {
        rule['alert']: rule['expr']
        for group in yaml.safe_load(RULES.read_text())['groups']
        for rule in group['rules']
    }
