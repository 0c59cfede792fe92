#include <cubepi/checkpoint/postgres_server_test.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cubepi/checkpoint/postgres_schema.hpp>

namespace cubepi {

namespace {

std::string output_of(const char* command) {
    std::string text;
    FILE* const pipe = popen(command, "r");
    if (!pipe) return text;
    std::array<char, 256> buffer{};
    while (std::fgets(buffer.data(), static_cast<int>(buffer.size()), pipe)) text += buffer.data();
    pclose(pipe);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
}

[[noreturn]] void fail(const std::string& text) { throw std::runtime_error(text); }

/// Reads until the server accepts connections; false if it ended before.
bool wait_for_start(int log, std::string& text) {
    std::array<char, 4096> buffer{};
    for (;;) {
        const ssize_t count = read(log, buffer.data(), buffer.size());
        if (count <= 0) return false;
        text.append(buffer.data(), static_cast<std::size_t>(count));
        if (text.find("ready to accept ") != std::string::npos) return true;
    }
}

}  // namespace

PostgresServer::PostgresServer(const std::filesystem::path& parent) {
    make_directory(parent);
    run_program({"initdb", "-D", file("data"), "-A", "trust", "-U", "cubepi", "-E", "UTF8",
                 "--locale=C.UTF-8", "--no-sync"});
    // One user has a password.
    std::ofstream(file("data/pg_hba.conf")) << "local all secret scram-sha-256\n"
                                               "local all,replication all trust\n"
                                               "host all all 127.0.0.1/32 trust\n";
    start();
}

PostgresServer::PostgresServer(PostgresServer& primary, const std::string& directory) {
    make_directory(memory_directory());
    run_program({"pg_basebackup", "-h", primary.socket_directory(), "-U", "cubepi", "-D",
                 file("data"), "-R", "-c", "fast", "--no-sync"});
    start({"-c", "primary_conninfo=host=" + directory + " user=cubepi"});
    RawPostgres server(primary.connection("postgres"));
    server.query("ALTER SYSTEM SET synchronous_standby_names = '*'");
    server.query("SELECT pg_reload_conf()");
    while (server.query("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") !=
           std::vector<std::string>{"1"})
        usleep(20'000);
}

void PostgresServer::promote() const {
    RawPostgres(connection("postgres")).query("SELECT pg_promote()");
}

void PostgresServer::make_directory(const std::filesystem::path& parent) {
    programs_ = output_of("pg_config --bindir");
    if (access((programs_ + "/initdb").c_str(), X_OK) != 0)
        fail("PostgreSQL is not installed; run tools/setup all");
    std::string name = (parent / "cubepi-postgres-XXXXXX").string();
    if (!mkdtemp(name.data())) fail("mkdtemp failed");
    directory_ = name;
    if (getuid() == 0) {
        const passwd* user = getpwnam("postgres");
        if (!user) user = getpwnam("nobody");  // words: allowed, a user of the system
        if (!user) fail("there is no unprivileged user for the server");
        user_ = user->pw_uid;
        group_ = user->pw_gid;
        if (chown(directory_.c_str(), user_, group_) != 0) fail("chown failed");
    }
}

void PostgresServer::run_program(std::vector<std::string> arguments) const {
    const std::string name = arguments.front();
    arguments.front() = programs_ + "/" + name;
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    const int pid = spawn(arguments, null);
    close(null);
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0) fail(name + " failed");
}

PostgresServer::~PostgresServer() {
    if (pid_ > 0) stop(SIGQUIT);
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
}

PostgresServer& PostgresServer::shared() {
    // On a disk before a release, where rates are measured that include the waits for it.
    const bool is_release = std::getenv("ALL") != nullptr;
    static PostgresServer server(is_release ? std::filesystem::temp_directory_path()
                                            : memory_directory());
    return server;
}

int PostgresServer::spawn(const std::vector<std::string>& arguments, int output,
                          std::size_t file_limit) const {
    std::vector<char*> argv;
    for (const std::string& one : arguments) argv.push_back(const_cast<char*>(one.c_str()));
    argv.push_back(nullptr);
    const int parent = getpid();
    const int pid = fork();
    if (pid != 0) return pid;
    if (user_ != 0 && (setgroups(0, nullptr) != 0 || setgid(group_) != 0 || setuid(user_) != 0))
        _exit(126);
    // After the change of the user, which resets it. The server ends at once, without waiting for its clients.
    prctl(PR_SET_PDEATHSIG, SIGQUIT);
    if (getppid() != parent) _exit(126);
    if (chdir("/") != 0) _exit(126);
    if (file_limit > 0) {
        // The server gets an error instead of a signal.
        const rlimit limit = {file_limit, file_limit};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(126);
        std::signal(SIGXFSZ, SIG_IGN);
    }
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
}

void PostgresServer::start(std::vector<std::string> more, std::size_t file_limit) {
    std::array<int, 2> pipe{};
    if (pipe2(pipe.data(), O_CLOEXEC) != 0) fail("pipe failed");
    std::vector<std::string> arguments = {programs_ + "/postgres",
                                          "-D",
                                          file("data"),
                                          "-k",
                                          directory_,
                                          "-c",
                                          "listen_addresses=",
                                          "-c",
                                          "fsync=off",
                                          "-c",
                                          "full_page_writes=off",
                                          "-c",
                                          "max_connections=200",
                                          "-c",
                                          "shared_buffers=32MB",
                                          "-c",
                                          "max_locks_per_transaction=256",
                                          "-c",
                                          "lc_messages=C",
                                          "-c",
                                          "log_line_prefix=%m [%p] [%v] "};
    arguments.insert(arguments.end(), more.begin(), more.end());
    pid_ = spawn(arguments, pipe[1], file_limit);
    close(pipe[1]);
    std::string text;
    if (!wait_for_start(pipe[0], text)) fail("the server did not start:\n" + text);
    log_ = std::thread([this, from = pipe[0]] { read_log(from); });
}

void PostgresServer::read_log(int pipe) {
    std::array<char, 4096> buffer{};
    for (;;) {
        const ssize_t count = read(pipe, buffer.data(), buffer.size());
        if (count <= 0) break;
        const std::lock_guard lock(mutex_);
        text_.append(buffer.data(), static_cast<std::size_t>(count));
        logged_.notify_all();
    }
    close(pipe);
}

std::string PostgresServer::log_of(const std::function<void()>& work) {
    const auto mark = [this] {
        const std::string marker = "marker " + std::to_string(++markers_) + ".";
        RawPostgres(connection("postgres")).query("DO $$ BEGIN RAISE LOG '" + marker + "'; END $$");
        std::unique_lock lock(mutex_);
        logged_.wait(lock, [&] { return text_.find(marker) != std::string::npos; });
        return text_.find(marker);
    };
    const std::size_t start = mark();
    work();
    const std::size_t end = mark();
    const std::lock_guard lock(mutex_);
    return text_.substr(start, end - start);
}

void PostgresServer::stop(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    if (log_.joinable()) log_.join();
}

void PostgresServer::crash(const std::string& database) const {
    std::vector<std::string> pids;
    for (;;) {
        try {
            // An earlier crash may end this connection late, after a store has been answered again.
            pids = RawPostgres(connection(database))
                       .query("SELECT pid FROM pg_stat_activity WHERE application_name = 'cubepi'");
            break;
        } catch (const std::runtime_error&) {
        }
    }
    if (!pids.empty()) kill(std::stoi(pids.front()), SIGKILL);
}

std::string PostgresServer::connection(const std::string& database, const std::string& more) const {
    return "host=" + directory_ + " dbname=" + database + " user=cubepi " + more;
}

std::string PostgresServer::create_empty_database() { return create_copy("template0", {}); }

std::string PostgresServer::create_database() {
    return create_copy("threads", [this](const std::string& database) {
        PostgresOptions options;
        options.connection = connection(database);
        run(apply_postgres_schema(options));
    });
}

std::string PostgresServer::create_database(const PostgresTables& tables) {
    return create_copy("with_" + tables.version_table(), [&](const std::string& database) {
        PostgresOptions options;
        options.connection = connection(database);
        run(tables.apply(options));
    });
}

std::string PostgresServer::create_copy(
    const std::string& original, const std::function<void(const std::string& database)>& fill) {
    RawPostgres server(connection("postgres"));
    const auto copy = [&server](const std::string& from, const std::string& name) {
        server.query("CREATE DATABASE " + name + " TEMPLATE " + from + " STRATEGY file_copy");
    };
    if (fill && originals_.insert(original).second) {
        copy("template0", original);
        fill(original);
    }
    std::string name = "test" + std::to_string(++databases_);
    copy(original, name);
    return name;
}

PgBouncer::PgBouncer(const PostgresServer& server) : server_(server) {
    if (access("/usr/sbin/pgbouncer", X_OK) != 0)
        fail("PgBouncer is not installed; run tools/setup all");
    const std::string directory = server.socket_directory();
    // Another session for each transaction, even if one is free.
    std::ofstream(server.file("pgbouncer.ini"))
        << "[databases]\n* = host=" << directory << " port=5432 user=cubepi\n[pgbouncer]\n"
        << "unix_socket_dir = " << directory << "\nlisten_port = " << port
        << "\nauth_type = any\npool_mode = transaction\nserver_round_robin = 1\n"
           "default_pool_size = 20\nmax_client_conn = 500\nserver_login_retry = 1\n"
           "ignore_startup_parameters = options\n";
    start();
}

void PgBouncer::start() {
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    pid_ = server_.spawn({"/usr/sbin/pgbouncer", server_.file("pgbouncer.ini")}, null);
    close(null);
    for (;;) {
        try {
            RawPostgres(connection("postgres")).query("SELECT 1");
            return;
        } catch (const std::runtime_error&) {
            if (waitpid(pid_, nullptr, WNOHANG) != 0) fail("PgBouncer did not start");
            usleep(20'000);
        }
    }
}

void PgBouncer::stop(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
}

std::vector<std::vector<std::string>> transactions_in(const std::string& log) {
    // "... [PID] [VIRTUAL TRANSACTION] LOG:  statement: TEXT" or "... LOG:  execute NAME: TEXT".
    const std::string mark = "] LOG:  ";
    std::map<std::string, std::size_t> known;
    std::vector<std::vector<std::string>> transactions;
    std::istringstream lines(log);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t at = line.find(mark);
        if (at == line.npos) continue;
        const std::string event = line.substr(at + mark.size());
        const std::size_t colon = event.find(": ");
        const bool is_executed = event.starts_with("statement: ") || event.starts_with("execute ");
        if (!is_executed || colon == event.npos) continue;
        const std::size_t id = line.rfind('[', at) + 1;
        const auto [found, is_new] =
            known.try_emplace(line.substr(id, at - id), transactions.size());
        if (is_new) transactions.emplace_back();
        transactions[found->second].push_back(event.substr(colon + 2));
    }
    return transactions;
}

RawPostgres::RawPostgres(const std::string& connection)
    : connection_(PQconnectdb(connection.c_str())) {
    if (PQstatus(connection_) == CONNECTION_OK) return;
    const std::string text = PQerrorMessage(connection_);
    PQfinish(connection_);
    fail(text);
}

std::vector<std::string> RawPostgres::query(const std::string& sql) {
    PGresult* const result = PQexec(connection_, sql.c_str());
    const ExecStatusType status = PQresultStatus(result);
    std::vector<std::string> values;
    for (int row = 0; row < PQntuples(result); ++row) {
        for (int column = 0; column < PQnfields(result); ++column) {
            values.emplace_back(PQgetisnull(result, row, column) ? "NULL"
                                                                 : PQgetvalue(result, row, column));
        }
    }
    PQclear(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        fail(std::string(PQerrorMessage(connection_)) + ": " + sql);
    return values;
}

}  // namespace cubepi
