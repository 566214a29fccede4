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

"""Caches what nova and its libraries compute anew for each test.

Every test starts nova's services on new databases. What they compute on the
way is always the same, so it is cached for the process. Nothing is cached
that a test could change, except Placement's answers: a write forgets them.
"""

import copy
import functools
import gc
import re
import threading
import time
import types

import futurist
import jsonschema
import requests
import sqlalchemy
from futurist import _thread
from futurist import _utils
from nova.api.openstack.compute import routes
from nova.tests.functional import fixtures as nova_fixtures
from oslo_messaging._drivers import impl_fake
from oslo_policy import policy
from oslo_versionedobjects import base as versioned_objects
from placement import deploy
from sqlalchemy import event
from sqlalchemy import orm
from sqlalchemy import pool
from sqlalchemy.dialects.sqlite import pysqlite

from tests.functional import placement_app


def cache_between_tests():
    """Set up the process for many tests; called once, after nova's import."""
    # All of nova is in memory by now and stays there.
    gc.freeze()
    # The routes of nova's API and the names of extra specs are more patterns
    # than Python keeps otherwise.
    re._MAXCACHE = 20_000
    _keep_statements()
    _keep_aliases()
    _keep_connections()
    _load_by_keys()
    _keep_checked_schemas()
    _keep_validators()
    _share_controllers()
    _keep_parsed_policies()
    _ask_placement_directly()
    # It looks through all environment variables at each request.
    requests.sessions.get_environ_proxies = lambda url, no_proxy=None: {}
    _keep_names_of_fields()
    _wake_listeners()
    _thread.ThreadWorker = WokenWorker


def _keep_statements():
    """Compile each SQL statement once for all databases.

    sqlalchemy caches compiled statements per engine and dialect, and each
    database of each test has its own, although all are SQLite.
    """
    dialect = pysqlite.dialect
    dialect.__hash__ = lambda self: hash(type(self))
    dialect.__eq__ = lambda self, other: type(self) is type(other)
    sqlalchemy.create_engine = functools.partial(
        sqlalchemy.create_engine, execution_options={'compiled_cache': {}}
    )


def _keep_aliases():
    """Name each alias of a table once.

    Placement does so in each query, and sqlalchemy copies all columns then.
    """
    make = sqlalchemy.alias
    make_once = functools.cache(make)

    def make_or_find(selectable, name=None, **options):
        if name and isinstance(selectable, sqlalchemy.Table) and not options:
            return make_once(selectable, name)
        return make(selectable, name, **options)

    sqlalchemy.alias = make_or_find


def _keep_connections():
    """Keep SQLite connections open, one per thread and database.

    oslo.db opens and closes one for each transaction, and closing the last
    connection of a database makes SQLite clean up its files.
    """
    make = sqlalchemy.create_engine

    def make_with_pool(url, **options):
        if options.get('poolclass') is pool.NullPool:
            options |= {
                'poolclass': pool.QueuePool,
                'pool_size': 50,
                'connect_args': {
                    **options.get('connect_args', {}),
                    'check_same_thread': False,
                },
                # A file does not hang up.
                'pool_pre_ping': False,
            }
            engine = make(url, **options)
            event.listen(engine, 'begin', _begin)
            return engine
        return make(url, **options)

    sqlalchemy.create_engine = make_with_pool


def _begin(connection):
    """Begin a transaction before oslo.db does, in a tenth of its time."""
    if 'in_transaction' not in connection.info:
        connection.connection.driver_connection.execute('BEGIN')
        connection.info['in_transaction'] = True


def _load_by_keys():
    """Load metadata by the keys of the instances that have been found.

    Nova's subqueries repeat the whole query of the instances, each time.
    """
    orm.subqueryload = orm.selectinload


def _keep_checked_schemas():
    """Check each JSON schema once; Placement does so for each request."""
    validator = jsonschema.validators.Draft202012Validator
    check = validator.check_schema
    checked = {}

    def check_once(schema, **options):
        if id(schema) not in checked:
            check(schema, **options)
            # The value keeps the schema, and so its id, alive.
            checked[id(schema)] = schema

    validator.check_schema = staticmethod(check_once)


def _keep_validators():
    """Make each class of validators once; Nova does so for each request."""
    extend = jsonschema.validators.extend
    made = {}

    def extend_once(validator, validators=(), **options):
        functions = {
            name: getattr(function, '__func__', function)
            for name, function in dict(validators).items()
        }
        key = (validator, *sorted(functions.items(), key=str), *options)
        if key not in made:
            made[key] = extend(validator, validators, **options)
        return made[key]

    jsonschema.validators.extend = extend_once


def _keep_parsed_policies():
    """Parse the policy rules of nova's API once; tests read them twice."""
    parse = functools.cache(policy.parse_file_contents)
    policy.parse_file_contents = lambda data: dict(parse(data))


def _ask_placement_directly():
    """Let Nova ask Placement without HTTP, and each question once."""
    make = deploy.loadapp
    deploy.loadapp = lambda config: placement_app.KeptAnswers(make(config))
    set_up = nova_fixtures.PlacementFixture.setUp

    def set_up_without_http(fixture):
        set_up(fixture)
        fixture._client.session = placement_app.Session(fixture.endpoint)

    nova_fixtures.PlacementFixture.setUp = set_up_without_http


def _keep_names_of_fields():
    """List the fields of each class of objects once, not in each question.

    Nova asks each object again and again what of it is set, and what has
    changed, and copies it before it saves it.
    """
    cls = versioned_objects.VersionedObject
    is_set = cls.obj_attr_is_set
    known = functools.cache(
        lambda made: frozenset((*made.fields, *made.obj_extra_fields))
    )
    places = functools.cache(
        lambda made: tuple((name, f'_obj_{name}') for name in made.fields)
    )

    def is_known_and_set(self, attrname):
        if f'_obj_{attrname}' in self.__dict__:
            return True
        if attrname in known(type(self)):
            return hasattr(self, f'_obj_{attrname}')
        return is_set(self, attrname)

    def what_changed(self):
        changes = self._changed_fields & self.fields.keys()
        values = self.__dict__
        for name, place in places(type(self)):
            value = values.get(place)
            if isinstance(value, cls) and value.obj_what_changed():
                changes.add(name)
        return changes

    def deep_copy(self, memo):
        made = type(self)()
        memo[id(self)] = made
        made._context = self._context
        values = self.__dict__
        for _, place in places(type(self)):
            if place in values:
                made.__dict__[place] = copy.deepcopy(values[place], memo)
        made._changed_fields = set(self._changed_fields)
        return made

    cls.obj_attr_is_set = is_known_and_set
    cls.obj_what_changed = what_changed
    cls.__deepcopy__ = deep_copy


def _share_controllers():
    """Create each controller of nova's API once instead of once per route.

    Controllers are shared within one API only.
    """
    make_all = routes.APIRouterV21.__init__
    whole = routes.ROUTE_LIST

    def make_each_once(router, custom_routes=None):
        once = {}
        for _, methods in whole:
            for make, *_ in (
                () if isinstance(methods, str) else methods.values()
            ):
                once.setdefault(make, functools.cache(make))
        routes.ROUTE_LIST = tuple(
            (path, methods)
            if isinstance(methods, str)
            else (
                path,
                {
                    method: (once[make], action)
                    for method, (make, action) in methods.items()
                },
            )
            for path, methods in whole
        )
        try:
            make_all(router, custom_routes)
        finally:
            routes.ROUTE_LIST = whole

    routes.APIRouterV21.__init__ = make_each_once


def _wake_listeners():
    """Wake those who listen for messages when there is one, or a stop.

    The library's fake listeners look twenty times a second, each for itself.
    """
    told = threading.Condition()

    def telling(function):
        def call_and_tell(*args, **options):
            result = function(*args, **options)
            with told:
                told.notify_all()
            return result

        return call_and_tell

    def sleep(_):
        with told:
            # A message may have come just before.
            told.wait(0.25)

    exchange, listener = impl_fake.FakeExchange, impl_fake.FakeListener
    exchange.deliver_message = telling(exchange.deliver_message)
    listener.stop = telling(listener.stop)
    impl_fake.time = types.SimpleNamespace(time=time.time, sleep=sleep)


class WokenWorker(_thread.ThreadWorker):
    """A worker thread that sleeps until there is work or it is stopped.

    The library's own polls for a stop a hundred times a second as nova's tests
    set it up, and each test has dozens of threads.
    """

    def stop(self):
        """Stop after the current work."""
        super().stop()
        self._wake()

    def run(self):
        """Run work items until stopped."""
        super().run()
        # Any thread may have woken up at the stop: wake the next one.
        self._wake()

    def _wait_for_work(self):
        self.idle = True
        work = self.work_queue.get()
        self.idle = False
        return work

    def _wake(self):
        self.work_queue.put(_utils.WorkItem(futurist.Future(), lambda: None))
