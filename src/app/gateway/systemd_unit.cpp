#include "systemd_unit.hpp"

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/posix_file.hpp>

#include "../config/config_file.hpp"
#include "../config/gateway_settings.hpp"
#include "../config/paths.hpp"
#include "../exit_code.hpp"
#include "../terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

constexpr const char* unit_name = "cubepi-gateway.service";

std::filesystem::path unit_path() {
    // $XDG_CONFIG_HOME/systemd/user
    return config_path().parent_path().parent_path() / "systemd" / "user" / unit_name;
}

std::filesystem::path this_program() {
    std::error_code failed;
    std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
    if (failed) throw Error(ErrorCode::io, "cannot determine the path of this program");
    return program;
}

/// In a unit, '%' begins a specifier, and '$' a variable in the command.
std::string escaped(const std::string& text, bool in_command) {
    std::string result;
    for (const char c : text) {
        if (c == '%') result += '%';
        if (c == '$' && in_command) result += '$';
        if (c == '"' || c == '\\') result += '\\';
        result += c;
    }
    return result;
}

/// A word of a command.
std::string quoted(const std::string& text) { return '"' + escaped(text, true) + '"'; }

[[noreturn]] void cannot_write(const std::filesystem::path& path) {
    throw Error(ErrorCode::io, "cannot write " + path.string() + ": " + detail::errno_text(errno));
}

void write_file(const std::filesystem::path& path, const std::string& text) {
    std::error_code failed;
    std::filesystem::create_directories(path.parent_path(), failed);
    const detail::UniqueFd file =
        detail::open_file(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (!file || !detail::write_all(file.get(), text)) cannot_write(path);
}

/// Creates the file for keys and tokens, which only this user can read.
void make_environment_file(const std::filesystem::path& path) {
    std::error_code failed;
    std::filesystem::create_directories(path.parent_path(), failed);
    const detail::UniqueFd file =
        detail::open_file(path.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (!file && errno == EEXIST) return;
    constexpr const char* text =
        "# Variables of the gateway's service, one per line: keys of models, tokens of channels.\n"
        "# OPENAI_API_KEY=...\n"
        "# CUBEPI_HTTP_TOKEN=...\n"
        "# TELEGRAM_BOT_TOKEN=...\n";
    if (!file || !detail::write_all(file.get(), text)) cannot_write(path);
}

}  // namespace

std::filesystem::path gateway_environment_path() {
    return config_path().parent_path() / "gateway.env";
}

std::string gateway_unit(const UnitOptions& options) {
    std::string command = quoted(options.program.string()) + " gateway";
    for (const std::string& channel : options.channels)
        command += " --enable-channel " + quoted(channel);
    // The service manager kills the gateway only after the gateway itself has cancelled its turns.
    const auto stop_timeout = options.drain_timeout + std::chrono::seconds(30);
    return "[Unit]\n"
           "Description=CubePi gateway\n"
           "\n"
           "[Service]\n"
           "Type=notify\n"
           "ExecStart=" +
           command +
           "\n"
           "ExecReload=/bin/kill -HUP $MAINPID\n"
           "EnvironmentFile=-" +
           escaped(options.environment.string(), false) +
           "\n"
           "Environment=CUBEPI_LOG=info\n"
           "WatchdogSec=60\n"
           "Restart=on-failure\n"
           "RestartSec=5\n"
           "TimeoutStopSec=" +
           std::to_string(stop_timeout.count()) +
           "\n"
           "LimitCORE=0\n"
           "NoNewPrivileges=yes\n"
           "LockPersonality=yes\n"
           "RestrictRealtime=yes\n"
           "RestrictSUIDSGID=yes\n"
           "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK\n"
           "SystemCallArchitectures=native\n"
           "SystemCallFilter=~@clock @cpu-emulation @module @obsolete @raw-io @reboot @swap\n"
           "UMask=0077\n"
           "\n"
           "[Install]\n"
           "WantedBy=default.target\n";
}

int install_unit(std::vector<std::string> channels) {
    const std::filesystem::path unit = unit_path();
    UnitOptions options;
    options.program = this_program();
    options.channels = std::move(channels);
    options.environment = gateway_environment_path();
    options.drain_timeout = gateway_settings(config_values(config_path())).drain_timeout;
    make_environment_file(options.environment);
    write_file(unit, gateway_unit(options));
    out() << "Wrote " << for_terminal(unit.string()) << "\n\n"
          << "Keys and tokens for the service: " << for_terminal(options.environment.string())
          << "\n"
          << "To start it now and at every login:\n"
          << "  systemctl --user daemon-reload\n"
          << "  systemctl --user enable --now cubepi-gateway\n"
          << "To keep it running while you are logged out:\n"
          << "  loginctl enable-linger\n"
          << "Its log:\n"
          << "  journalctl --user -u cubepi-gateway -f\n";
    return exit_ok;
}

int uninstall_unit() {
    const std::filesystem::path unit = unit_path();
    if (::unlink(unit.c_str()) != 0 && errno != ENOENT) {
        throw Error(ErrorCode::io,
                    "cannot remove " + unit.string() + ": " + detail::errno_text(errno));
    }
    out() << "Removed " << for_terminal(unit.string()) << "\n"
          << "To end the running service:\n"
          << "  systemctl --user disable --now cubepi-gateway\n"
          << "  systemctl --user daemon-reload\n";
    return exit_ok;
}

}  // namespace cubepi::app
