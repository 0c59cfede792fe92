# Sourced by shell scripts: packages of npm and PyPI for checks, in exactly the versions of a lock file. They are installed once, into the
# user's cache directory ($XDG_CACHE_HOME or ~/.cache), so that another clone, such as that of CI, needs no network. Without network and
# without the copy, the check fails and states which directory is missing.
package_cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/cubepi-packages

# Runs "$3..." in a new directory, which becomes $2 when everything is installed: a copy that is interrupted is never used.
install_packages_once() {
    what=$1
    target=$2
    shift 2
    [ ! -d "$target" ] || return 0
    mkdir -p "$package_cache"
    partial=$(mktemp -d "$package_cache/partial-XXXXXX")
    if (cd "$partial" && "$@") > "$partial.log" 2>&1; then
        # Another process may have finished first; its copy is as good.
        mv -T "$partial" "$target" 2> /dev/null || rm -rf "$partial"
        rm -f "$partial.log"
        return 0
    fi
    tail -n 20 "$partial.log" >&2
    rm -rf "$partial" "$partial.log"
    echo "$(basename "$0"): $what could not be installed, and there is no copy in $target; is the network reachable?" >&2
    return 1
}

# Sets node_packages to the directory with the node_modules of $1/package.json and $1/package-lock.json.
install_node_packages() {
    name=$(basename "$1")-$(cat "$1/package.json" "$1/package-lock.json" | sha256sum | cut -c 1-16)
    node_packages=$package_cache/npm-$name
    source=$(cd "$1" && pwd)
    install_packages_once "the npm packages of $1" "$node_packages" \
        sh -c 'cp "$0/package.json" "$0/package-lock.json" . && npm ci --ignore-scripts --no-audit --no-fund' "$source"
}

# Sets python_packages to a Python interpreter with the packages of the file $1, which names every version.
install_python_packages() {
    version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    name=$version-$(sha256sum < "$1" | cut -c 1-16)
    directory=$package_cache/pip-$name
    requirements=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
    # The scripts of a virtual environment name its directory, but only its interpreter is used, which does not.
    install_packages_once "the Python packages of $1" "$directory" \
        sh -c 'python3 -m venv . && bin/python -m pip install -q --no-deps -r "$0"' "$requirements" || return 1
    python_packages=$directory/bin/python
}
