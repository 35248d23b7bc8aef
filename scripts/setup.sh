#!/bin/bash
# Installs what fairspine needs: Debian packages where they are missing (needs root), and .venv.
#   setup.sh run    what people need who run it
#   setup.sh test   and what the tests and checks need
#   setup.sh referee   what people need who run it, and the packet engine
#   setup.sh training   what people need who run it, and the frameworks that examples/training uses
# Does nothing when nothing has changed: .venv/.fairspine-* hold a checksum of all requirement files.
set -euo pipefail
cd "$(dirname "$0")/.."

what=${1:?run, test, referee or training}
venv=.venv
run_packages=(python3-venv openvswitch-switch mininet iproute2 iputils-ping ethtool nftables)
training_packages=(openmpi-bin gcc libc6-dev make)
packet_packages=(g++ libns3-dev)
test_packages=(curl gcc clang libbpf-dev libc6-dev libibverbs-dev ibverbs-providers make groff openssl shellcheck tcpdump iperf3 postgresql python3-simgrid prometheus slurmctld slurmd slurm-client munge lldpd libyang-tools frr chromium chromium-driver fonts-dejavu-core)
extras=controller,emulation
[ "$what" = training ] && extras=controller,emulation,training
[ "$what" = test ] && extras=controller,emulation,training,cluster,kubernetes,dev
simulates_packets() { [ "$what" = test ] || [ "$what" = referee ]; }

temporary=()
cleanup() { [ ${#temporary[@]} = 0 ] || rm -f "${temporary[@]}"; }
trap cleanup EXIT
say() { echo "fairspine setup: $*"; }
fail() { say "$*" >&2; exit 1; }

# The Python that .venv is made of: PYTHON if given, else the python3 on the path, if it is new enough.
python=${PYTHON:-python3}
needed="Python 3.11, 3.12 or 3.13 is needed (PYTHON=... chooses one)"
version=$("$python" --version 2> /dev/null) || fail "$python cannot be run; $needed"
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || fail "$version is not supported; $needed"

packages=("${run_packages[@]}")
[ "$what" = test ] && packages+=("${test_packages[@]}")
{ [ "$what" = test ] || [ "$what" = training ]; } && packages+=("${training_packages[@]}")
simulates_packets && packages+=("${packet_packages[@]}")
missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  command -v apt-get > /dev/null || fail "apt-get is missing, so install these programs by hand: ${missing[*]}"
  [ "$(id -u)" = 0 ] || fail "only root can install the Debian packages that are missing: ${missing[*]}"
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  log=$(mktemp)
  temporary+=("$log")
  # Services are not started: fairspine's lab runs an Open vSwitch of its own, and nobody asked for another.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
    temporary+=("$policy")
  fi
  apt=(apt-get -q -y -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3)
  if ! { "${apt[@]}" update && "${apt[@]}" install --no-install-recommends "${missing[@]}"; } > "$log" 2>&1 < /dev/null; then
    tail -n 15 "$log" >&2
    fail "apt-get could not install ${missing[*]} (is there a network?)"
  fi
fi

build_packets() {
  local program=$venv/bin/fairspine-packets-ns3   # the last one that is compiled
  simulates_packets || return 0
  [ -z "$(find emulation/packets/driver -newer "$program" 2>&1)" ] && return
  say "compiling the packet engine"
  "$venv/bin/python" -m emulation.packets.program > /dev/null || fail "the packet engine could not be compiled"
}

build_verbs() {
  [ "$what" = test ] || return 0
  make -s verbs || fail "libfairspine-verbs could not be compiled"
}

build_tcp() {
  case $what in test | training) make -s tcp || fail "libfairspine-tcp could not be compiled" ;; esac
}

stamp=$venv/.fairspine-$what
sum=$({ echo "$version"; pwd; cat setup.cfg pyproject.toml requirements/*.txt scripts/setup.sh; } | sha256sum | cut -d' ' -f1)
if [ "$(cat "$stamp" 2> /dev/null)" = "$sum" ]; then
  build_packets
  build_verbs
  build_tcp
  exit 0
fi

[ -w . ] && { [ ! -e "$venv" ] || [ -w "$venv" ]; } || fail "$(id -un) may not write to $(pwd)/$venv"
say "installing the Python packages into $venv"
if ! "$venv/bin/python" -c 'import pip' 2> /dev/null || [ "$("$venv/bin/python" --version)" != "$version" ]; then
  rm -rf "$venv"
  "$python" -m venv "$venv" || fail "$python cannot make a virtual environment (Debian: apt-get install python3-venv)"
fi
# Ryu 4.34 builds with one setuptools only. Older pips take it from the first variable, newer ones from the second.
export PIP_CONSTRAINT="requirements/build.txt requirements/constraints.txt"
export PIP_BUILD_CONSTRAINT=requirements/build.txt
log=$(mktemp)
temporary+=("$log")
if ! "$venv/bin/python" -m pip install --no-input --disable-pip-version-check --progress-bar off \
    -e ".[$extras]" > "$log" 2>&1 < /dev/null; then
  tail -n 15 "$log" >&2
  fail "pip could not install the Python packages (is there a network?)"
fi

# Ryu brings a ryu-manager of its own, which cannot start; which of the two is installed last depends on the installer.
if ! grep -q controller.launcher "$venv/bin/ryu-manager"; then
  "$venv/bin/python" -m pip install --no-input --no-deps --no-build-isolation --force-reinstall -q -e . < /dev/null
  grep -q controller.launcher "$venv/bin/ryu-manager" || fail "$venv/bin/ryu-manager is Ryu's, not fairspine's"
fi
say "compiling the kernels of the planner and the simulator"
"$venv/bin/fairspine" warm-up > /dev/null < /dev/null || fail "the kernels could not be compiled"
build_packets
build_verbs
build_tcp
echo "$sum" > "$stamp"
[ "$what" = run ] || echo "$sum" > "$venv/.fairspine-run"
[ "$what" = test ] && echo "$sum" | tee "$venv/.fairspine-referee" > "$venv/.fairspine-training"
say "ready: $venv/bin/fairspine, $venv/bin/ryu-manager"
