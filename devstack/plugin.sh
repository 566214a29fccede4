# shellcheck shell=bash
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

# The DevStack plugin of nova-powervm. stack.sh, unstack.sh and clean.sh source
# it with a mode and a phase.

function _powervm_python {
    if [[ "$GLOBAL_VENV" == "True" ]]; then
        echo "$DEVSTACK_VENV/bin/python3"
    else
        command -v "python$PYTHON3_VERSION"
    fi
}

function _powervm_password_file {
    echo "$NOVA_CONF_DIR/powervm-emulator.password"
}

function install_powervm {
    local extras=
    if is_service_enabled neutron-api q-svc; then
        extras=neutron
    fi
    # Editable, as nova is: a wheel puts nova/virt/powervm_ext into
    # site-packages, where a nova that is installed editable is not.
    # shellcheck disable=SC2086
    setup_develop "$NOVA_POWERVM_DIR" $extras
    if is_service_enabled powervm-emulator; then
        pip_install -e "$NOVA_POWERVM_DIR/emulator"
    fi
}

function configure_powervm_compute {
    local inventory=$NOVA_CONF_DIR/inventory.yaml

    iniset "$NOVA_CONF" DEFAULT compute_driver \
        powervm_ext.driver.PowerVMDriver
    iniset "$NOVA_CONF" powervm inventory_file "$inventory"
    if [[ -n "$POWERVM_REST_URL" ]]; then
        iniset "$NOVA_CONF" powervm rest_url "$POWERVM_REST_URL"
        iniset "$NOVA_CONF" powervm rest_username "$POWERVM_REST_USERNAME"
        iniset "$NOVA_CONF" powervm rest_password "$POWERVM_REST_PASSWORD"
    fi
    if [[ -n "$POWERVM_REST_CAFILE" ]]; then
        iniset "$NOVA_CONF" powervm rest_cafile "$POWERVM_REST_CAFILE"
    fi
    if [[ -n "$POWERVM_VOLUME_GROUP" ]]; then
        iniset "$NOVA_CONF" powervm volume_group_name "$POWERVM_VOLUME_GROUP"
    fi
    if is_service_enabled powervm-emulator; then
        # New disks of the emulator show zeros. Images can be qcow2 then.
        iniset "$NOVA_CONF" powervm disk_clear none
    fi
    # The driver refuses a file that every user can write.
    install -m 0640 "$POWERVM_INVENTORY" "$inventory"
}

function configure_powervm_scheduler {
    local enabled
    enabled=$(iniget "$NOVA_CONF" filter_scheduler enabled_filters)
    if [[ ",$enabled," != *,PowerVMDeviceOrderFilter,* ]]; then
        # Without DevStack's own list, this would replace Nova's default.
        iniset "$NOVA_CONF" filter_scheduler enabled_filters \
            "${enabled:-$NOVA_FILTERS},PowerVMDeviceOrderFilter"
        iniadd "$NOVA_CONF" filter_scheduler available_filters \
            nova_powervm.scheduler.filters.all_filters
    fi
}

function configure_powervm_neutron {
    # The name that nova-compute has by default.
    iniset "/$Q_PLUGIN_CONF_FILE" pvm_sea hosts "$(hostname)"
    iniset "/$Q_PLUGIN_CONF_FILE" pvm_sea physical_networks "$PHYSICAL_NETWORK"
    if is_service_enabled neutron-dhcp q-dhcp; then
        # The agent would leave networks with a router to that, which is OVN's.
        iniset "$Q_DHCP_CONF_FILE" DEFAULT force_metadata True
    fi
}

function start_powervm_emulator {
    local command
    # Not on the command line, which all users can read.
    (umask 077 && echo "$POWERVM_REST_PASSWORD" > "$(_powervm_password_file)")
    command="$(_powervm_python) -m powervm_emulator"
    command+=" --port $POWERVM_EMULATOR_PORT"
    command+=" --username $POWERVM_REST_USERNAME"
    command+=" --password-file $(_powervm_password_file)"
    if [[ -n "$POWERVM_EMULATOR_WORLD" ]]; then
        command+=" --world $POWERVM_EMULATOR_WORLD"
    fi
    run_process powervm-emulator "$command"
}

function clean_powervm {
    rm -f "$NOVA_CONF_DIR/inventory.yaml" "$(_powervm_password_file)"
}

case "$1 ${2:-}" in
    "stack install")
        echo_summary "Installing nova-powervm"
        install_powervm
        ;;
    "stack post-config")
        echo_summary "Configuring nova-powervm"
        if is_service_enabled powervm-emulator; then
            # stack.sh may have asked for it after the settings were read.
            POWERVM_REST_PASSWORD=${POWERVM_REST_PASSWORD:-$ADMIN_PASSWORD}
        fi
        if is_service_enabled neutron-api q-svc; then
            configure_powervm_neutron
        fi
        if is_service_enabled n-cpu; then
            configure_powervm_compute
        fi
        if is_service_enabled n-sch; then
            configure_powervm_scheduler
        fi
        if is_service_enabled powervm-emulator; then
            start_powervm_emulator
        fi
        ;;
    "unstack ")
        if is_service_enabled powervm-emulator; then
            stop_process powervm-emulator
        fi
        ;;
    "clean ")
        clean_powervm
        ;;
esac
