#!/usr/bin/env bash
# What must be on the machine before the rest can set itself up: `preflight.sh python|go|node|shells|promtool`.
#
# Prints nothing when all is there. On Debian (and its children) as root it installs what is missing; anywhere
# else it says plainly what is missing and how to get it. `python` prints the interpreter that it found.
set -euo pipefail

PYTHON_MINIMUM=3.11
GO_MINIMUM=1.21 # from here on Go can fetch the version that a go.mod asks for by itself

say() { printf '[preflight] %s\n' "$*" >&2; }

can_install() { [ -z "${BASE_PYTHON:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

install() {
    say "installing with apt-get: $*"
    export DEBIAN_FRONTEND=noninteractive
    timeout 300 apt-get update -qq >&2
    timeout 600 apt-get install -y -qq --no-install-recommends "$@" >&2
}

# The first interpreter that is new enough and can make a virtual environment with pip in it.
find_python() {
    local candidate
    for candidate in ${BASE_PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if "$candidate" - "$PYTHON_MINIMUM" >/dev/null 2>&1 <<'PY'
import ensurepip, sys, venv
wanted = tuple(map(int, sys.argv[1].split(".")))
sys.exit(sys.version_info[:2] < wanted)
PY
        then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

need_python() {
    find_python && return
    if can_install; then
        install python3 python3-venv
        find_python && return
    fi
    say "Python $PYTHON_MINIMUM or newer with the modules venv and ensurepip is missing."
    say "Debian and Ubuntu: apt-get install python3 python3-venv.  Fedora: dnf install python3."
    say "macOS: brew install python.  Or name an interpreter: make BASE_PYTHON=/path/to/python3 ..."
    exit 1
}

# Go is needed only where the cluster's programs are not built yet, and the build itself says what to do when
# there is none; so this installs where it can and never fails.
need_go() {
    command -v go >/dev/null && return
    can_install || return 0
    timeout 300 apt-get update -qq >&2 || return 0
    local offered
    offered=$(apt-cache policy golang-go | awk '/Candidate:/ {print $2}')
    if [ -n "$offered" ] && dpkg --compare-versions "${offered#*:}" ge "$GO_MINIMUM"; then
        install golang-go
    fi
}

have_cni() { [ -x /usr/lib/cni/bridge ] || [ -x /opt/cni/bin/bridge ] || [ -x /usr/libexec/cni/bridge ]; }

# What tests with running pods need, and restic. Like Go, this is installed where it can be and never fails:
# without root no node can run, and the tests that need one are skipped; otherwise they fail and say the same.
need_node() {
    local missing=()
    command -v containerd >/dev/null || missing+=(containerd)
    command -v runc >/dev/null || missing+=(runc)
    command -v ip >/dev/null || missing+=(iproute2)
    command -v busybox >/dev/null || missing+=(busybox-static)
    have_cni || missing+=(containernetworking-plugins)
    command -v restic >/dev/null || missing+=(restic)
    [ ${#missing[@]} -gt 0 ] || return 0
    if can_install && install "${missing[@]}"; then
        return 0
    fi
    say "Tests with running pods or restic need programs that are missing here: ${missing[*]}."
    say "Debian and Ubuntu: apt-get install ${missing[*]}.  Elsewhere: the packages of these names."
    [ "$(id -u)" = 0 ] || say "Running pods also needs root; without it these tests are skipped."
}

# The shells in which completion is tested, and what checks manual pages. Tests of missing ones are skipped.
need_shells() {
    local missing=()
    command -v zsh >/dev/null || missing+=(zsh)
    command -v fish >/dev/null || missing+=(fish)
    command -v mandoc >/dev/null || missing+=(mandoc)
    [ ${#missing[@]} -gt 0 ] || return 0
    if can_install && install "${missing[@]}"; then
        return 0
    fi
    say "Tests of completion and of manual pages are skipped where a program is missing: ${missing[*]}."
}

# Check the alert rules and take alerts. Only these programs are taken out of the packages: installing them would
# start servers.
need_promtool() {
    take_out prometheus promtool prometheus
    take_out prometheus-alertmanager alertmanager:prometheus-alertmanager
}

TEMPLATES=/usr/share/prometheus/alertmanager

# PACKAGE NAME[:PROGRAM]...: put programs of a Debian package into the cache under these names.
take_out() {
    local package=$1 cache=${PINNACE_CACHE:-$HOME/.cache/pinnace}/promtool scratch each missing=
    shift
    for each in "$@"; do
        command -v "${each%%:*}" >/dev/null || [ -x "$cache/${each%%:*}" ] || missing=yes
    done
    [ -n "$missing" ] || return 0
    if can_install; then
        say "taking $* out of the package $package"
        timeout 300 apt-get update -qq >&2 || true
        mkdir -p "$cache"
        scratch=$(mktemp -d "$cache/.unpack-XXXXXX")
        # As root, apt-get warns that it cannot drop its rights in a private folder.
        if (cd "$scratch" && timeout 300 apt-get download -qq "$package" 2>/dev/null && dpkg -x ./*.deb .); then
            for each in "$@"; do
                mv "$scratch/usr/bin/${each##*:}" "$cache/${each%%:*}"
            done
            # Debian's Alertmanager starts only where its templates are.
            if [ -d "$scratch$TEMPLATES" ]; then
                mkdir -p "$TEMPLATES"
                cp -n "$scratch$TEMPLATES"/*.tmpl "$TEMPLATES/"
            fi
            rm -r "$scratch"
            return 0
        fi
        rm -r "$scratch"
    fi
    say "Tests of alerts are skipped: $* is not in PATH. It is in the package $package."
}

case "${1:-}" in
    python) need_python ;;
    go) need_go ;;
    node) need_node ;;
    shells) need_shells ;;
    promtool) need_promtool ;;
    *)
        say "usage: preflight.sh python|go|node|shells|promtool"
        exit 2
        ;;
esac
