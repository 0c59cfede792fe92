#include <cubepi/checkpoint/postgres/connection_string.hpp>

#include <cubepi/checkpoint/postgres_options.hpp>

#include <cstdlib>
#include <memory>

#include <arpa/inet.h>
#include <libpq-fe.h>
#include <netinet/in.h>

#include <cubepi/core/error.hpp>

namespace cubepi::detail {

namespace {

using Options = std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)>;

void copy_values(const PQconninfoOption* options, std::map<std::string, std::string>& values) {
    for (const PQconninfoOption* one = options; one && one->keyword; ++one) {
        if (one->val && *one->val) values[one->keyword] = one->val;
    }
}

std::vector<std::string> split(const std::string& list) {
    std::vector<std::string> parts;
    std::size_t start = 0;
    for (;;) {
        const std::size_t comma = list.find(',', start);
        parts.push_back(list.substr(start, comma - start));
        if (comma == std::string::npos) return parts;
        start = comma + 1;
    }
}

bool is_socket_directory(const std::string& host) {
    return host.empty() || host.front() == '/' || host.front() == '@';
}

bool is_address(const std::string& host) {
    in6_addr unused{};
    return inet_pton(AF_INET, host.c_str(), &unused) == 1 ||
           inet_pton(AF_INET6, host.c_str(), &unused) == 1;
}

void append_to_list(std::string& list, const std::string& item, bool first) {
    if (!first) list += ',';
    list += item;
}

void replace_all(std::string& text, const std::string& secret) {
    if (secret.empty()) return;
    for (std::size_t at = text.find(secret); at != std::string::npos;
         at = text.find(secret, at + 3)) {
        text.replace(at, secret.size(), "***");
    }
}

}  // namespace

PgParameters::PgParameters(const std::string& connection) {
    char* error = nullptr;
    const Options parsed(PQconninfoParse(connection.c_str(), &error), &PQconninfoFree);
    PQfreemem(error);
    if (!parsed) {
        throw CheckpointerError(
            ErrorCode::invalid_argument,
            "the PostgreSQL connection string cannot be parsed; write "
            "postgres://USER@HOST:PORT/DATABASE with special characters as %XX, or "
            "host=HOST dbname=DATABASE user=USER");
    }
    copy_values(parsed.get(), given_);
    if (given_.contains("service")) {
        throw CheckpointerError(ErrorCode::invalid_argument,
                                "'service' is not supported in a PostgreSQL connection string; set "
                                "PGSERVICE, or write the parameters of the service");
    }
    const Options defaults(PQconndefaults(), &PQconninfoFree);
    copy_values(defaults.get(), defaults_);
    description_ = describe();
}

std::string PgParameters::effective(const std::string& key) const {
    for (const auto* values : {&given_, &defaults_}) {
        const auto found = values->find(key);
        if (found != values->end()) return found->second;
    }
    return {};
}

std::vector<PgParameters::Host> PgParameters::hosts() const {
    const std::vector<std::string> names = split(effective("host"));
    const std::vector<std::string> addresses = split(effective("hostaddr"));
    const std::vector<std::string> ports = split(effective("port"));
    std::vector<Host> hosts;
    for (std::size_t i = 0; i < std::max(names.size(), addresses.size()); ++i) {
        Host host;
        if (i < names.size()) host.name = names[i];
        if (i < addresses.size()) host.address = addresses[i];
        host.port = ports.size() == 1 ? ports[0] : i < ports.size() ? ports[i] : std::string();
        hosts.push_back(std::move(host));
    }
    return hosts;
}

std::vector<std::string> PgParameters::names_to_resolve() const {
    std::vector<std::string> names;
    for (const Host& host : hosts()) {
        if (host.address.empty() && !is_socket_directory(host.name) && !is_address(host.name))
            names.push_back(host.name);
    }
    return names;
}

std::map<std::string, std::string> PgParameters::with_addresses(
    const std::map<std::string, std::vector<std::string>>& addresses) const {
    std::map<std::string, std::string> values = given_;
    std::string names;
    std::string all;
    std::string ports;
    bool first = true;
    const auto add = [&](const Host& host, const std::string& address) {
        append_to_list(names, host.name, first);
        append_to_list(all, address, first);
        append_to_list(ports, host.port, first);
        first = false;
    };
    const std::vector<std::string> unresolved = names_to_resolve();
    if (!unresolved.empty()) {
        for (const Host& host : hosts()) {
            const auto found = addresses.find(host.name);
            if (found != addresses.end()) {
                for (const std::string& address : found->second) add(host, address);
            } else if (std::find(unresolved.begin(), unresolved.end(), host.name) ==
                       unresolved.end()) {
                add(host, host.address);
            }
        }
        values["host"] = names;
        values["hostaddr"] = all;
        values["port"] = ports;
    }
    values["client_encoding"] = "UTF8";
    if (effective("application_name").empty()) values["fallback_application_name"] = "cubepi";
    // Kerberos would look for a ticket server with blocking calls.
    if (!given_.contains("gssencmode") && !std::getenv("PGGSSENCMODE"))
        values["gssencmode"] = "disable";
    return values;
}

std::string PgParameters::describe() const {
    std::string database = effective("dbname");
    if (database.empty()) database = effective("user");
    std::string where;
    for (const Host& host : hosts()) {
        if (!where.empty()) where += ", ";
        const std::string& name = host.name.empty() ? host.address : host.name;
        where += is_socket_directory(name) ? (name.empty() ? std::string("the local socket") : name)
                                           : name + ":" + host.port;
    }
    return "PostgreSQL database '" + database + "' on " + where;
}

std::string PgParameters::without_secrets(std::string text) const {
    for (const char* key : {"password", "sslpassword"}) replace_all(text, effective(key));
    return text;
}

}  // namespace cubepi::detail

namespace cubepi {

std::string postgres_description(const PostgresOptions& options) {
    return detail::PgParameters(options.connection).description();
}

}  // namespace cubepi
