#!/bin/bash
# The compiler launcher of this project's builds: compiles through ccache, so that a file that was compiled in one clone is taken from the
# cache in every other.
#
# Paths of the source tree and of the build become relative, because ccache compares arguments. A precompiled header is compiled in each
# clone, since clang stores absolute paths in it; ccache compares the checksum that is written below instead of its contents.
set -u
root=$(realpath "${BASH_SOURCE[0]%/*}/..")
directory=$PWD
up=
while [ "$directory" != "$root" ]; do
    # A build outside of the source tree keeps absolute paths.
    [ -n "$directory" ] || { up=$root/; break; }
    directory=${directory%/*}
    up=../$up
done
up=${up%/}
# Sets `path` to a path of the tree, relative to this directory.
make_relative() {
    case $1 in
        "$PWD"/*) path=${1#"$PWD"/} ;;
        "$root") path=$up ;;
        "$root"/*) path=$up/${1#"$root"/} ;;
        *) path=$1 ;;
    esac
}

# Large pages, and a heap that grows in large steps: the compiler takes a twentieth less time.
export GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.top_pad=67108864:glibc.malloc.mmap_threshold=2147483648

arguments=()
header=
previous=
for argument; do
    # A path in a macro (-D) is used at run time, in another directory.
    case $argument in
        /*) make_relative "$argument"
            argument=$path ;;
        -I/*) make_relative "${argument#-I}"
              argument=-I$path ;;
    esac
    case $previous in
        -x) [ "$argument" != c++-header ] || header=1 ;;
        -MF) dependencies=$argument ;;
        -o) output=$argument ;;
    esac
    previous=$argument
    arguments+=("$argument")
done
if [ -z "$header" ]; then
    # Two of ccache's checks do not work with precompiled headers. In depend mode it reads the dependencies that the compiler writes;
    # running the preprocessor for them makes a miss up to a quarter slower. The check of the times of headers stays: an object that
    # was compiled while a header changed would be stored for the new content.
    export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1
    export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1 CCACHE_MAXSIZE=${CCACHE_MAXSIZE:-10G}
    exec ccache "${arguments[@]}"
fi
"${arguments[@]}" || exit
# The checksum covers the arguments and everything that the header includes; if that cannot be read, the compiled header.
{
    echo "${arguments[*]}"
    sed -e 's/^[^:]*: *//' -e 's/\\$//' "$dependencies" | tr ' ' '\n' | sed '/^$/d' | xargs -d '\n' cat || cat "$output"
} 2> /dev/null | sha256sum > "$output.sum"
