# Sourced by the scripts beside it: makes the Python environments that they run in.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# What the caller's shell has set up must not leak into ours.
unset PYTHONPATH PYTHONHOME VIRTUAL_ENV PYTHONDONTWRITEBYTECODE PYTHONWARNINGS

say() { printf '%s\n' "$*" >&2; }

# Whether a Python is one that stepwhy supports and can make environments. A name on the PATH may
# be a version manager's shim without a version behind it, so it has to run.
supported() {
    "$1" -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
        >/dev/null 2>&1
}

# Prints the first Python on the PATH that is supported.
find_python() {
    local name candidate
    for name in python3 python3.13 python3.12 python3.11 python; do
        while read -r candidate; do
            if supported "$candidate"; then
                printf '%s\n' "$candidate"
                return
            fi
        done < <(type -aP "$name")
    done
    say "stepwhy needs Python 3.11, 3.12 or 3.13 with its venv module on the PATH, and none is there."
    say "Install one (on Debian and Ubuntu: apt install python3-venv), then try again."
    return 1
}

# What an environment is made from; when it changes, the environment is brought up to date.
fingerprint() {
    { cat "$root/pyproject.toml"; printf '%s\n' "$root" "$@"; } | cksum
}

# Compiling every module takes pip a minute; Python compiles those that are imported.
install_packages() {
    (cd "$root" && "$environment/bin/python" -m pip install -qq --no-compile \
        --disable-pip-version-check --no-input "$@")
}

# What the tests need. The CPU build of torch is named on its own, lest another requirement draws in a
# different one. No other package needs it, so it is unpacked beside them; what it needs comes last.
# shellcheck disable=SC2034  # used by the scripts that source this
test_packages=(
    "--no-deps torch==2.13.0 &" "--no-warn-conflicts -e .[test,lint,tensorflow,jax]" "torch==2.13.0"
)

# Makes .venvs/NAME, or brings it up to date. Each further argument is what one run of pip
# installs, as words; one that ends in & is installed beside the next. Sets `environment` to its
# folder.
#   make_environment NAME 'PIP ARGUMENTS [&]'...
make_environment() {
    local name=$1 python stamp wanted started=$SECONDS words beside=
    shift
    environment=$root/.venvs/$name
    stamp=$environment/.fingerprint
    wanted=$(fingerprint "$@")
    [[ -f $stamp && $(<"$stamp") == "$wanted" ]] && return
    if ! supported "$environment/bin/python"; then
        python=$(find_python) || return
        say "Making .venvs/$name with $("$python" --version) ..."
        "$python" -m venv --clear "$environment" || return
    fi
    for words in "$@"; do
        say "Installing ${words% &} into .venvs/$name (the first time takes minutes) ..."
        if [[ $words == *" &" ]]; then
            # shellcheck disable=SC2086  # one argument of ours is several of pip's
            install_packages ${words% &} &
            beside=$!
            continue
        fi
        # shellcheck disable=SC2086  # one argument of ours is several of pip's
        install_packages $words || return
        [[ -z $beside ]] || wait "$beside" || return
        beside=
    done
    printf '%s\n' "$wanted" >"$stamp"
    say "Ready after $((SECONDS - started)) s."
}
