# Sourced by shell scripts before they change the working directory: adds --help, which prints the comment at the script's
# head, and wrong_arguments, which prints it as an error.
script=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
print_help() { awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$script"; }
wrong_arguments() { print_help >&2; exit 2; }
case ${1:-} in
    -h | --help) print_help; exit 0 ;;
esac
