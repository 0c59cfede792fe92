#include <cubepi/checkpoint/mysql_server_test.hpp>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cubepi/checkpoint/mysql_schema.hpp>
#include <cubepi/core/scoped_test_directory.hpp>

namespace cubepi {

namespace {

[[noreturn]] void fail(const std::string& text) { throw std::runtime_error(text); }

MYSQL* connect(const std::string& socket, const std::string& database) {
    MYSQL* const handle = mysql_init(nullptr);
    mysql_optionsv(handle, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    if (mysql_real_connect(handle, nullptr, "cubepi", nullptr, database.c_str(), 0, socket.c_str(),
                           CLIENT_MULTI_STATEMENTS))
        return handle;
    mysql_close(handle);
    return nullptr;
}

std::string program(const char* name) {
    for (const char* directory : {"/usr/sbin/", "/usr/bin/", "/usr/local/bin/"}) {
        std::string path = std::string(directory) + name;
        if (access(path.c_str(), X_OK) == 0) return path;
    }
    fail(std::string(name) + " is not installed; run tools/setup all");
}

}  // namespace

MySQLServer::MySQLServer() {
    std::string name = (memory_directory() / "cubepi-mysql-XXXXXX").string();
    if (!mkdtemp(name.data())) fail("mkdtemp failed");
    directory_ = name;
    if (getuid() == 0) {
        const passwd* user = getpwnam("mysql");
        if (!user) user = getpwnam("nobody");  // words: allowed, a user of the system
        if (!user) fail("there is no unprivileged user for the server");
        user_ = user->pw_uid;
        group_ = user->pw_gid;
    }
    // A server that starts removes the temporary tables of all servers in the same directory.
    std::filesystem::create_directory(directory_ + "/tmp");
    for (const std::string& one : {directory_, directory_ + "/tmp"}) {
        if (user_ != 0 && chown(one.c_str(), user_, group_) != 0) fail("chown failed");
    }
    int status = 0;
    waitpid(spawn({program("mariadb-install-db"), "--no-defaults", "--datadir=" + directory_ + "/d",
                   "--tmpdir=" + directory_ + "/tmp", "--skip-test-db",
                   "--auth-root-authentication-method=normal"}),
            &status, 0);
    if (status != 0) fail("mariadb-install-db failed:\n" + log());
    std::ofstream(directory_ + "/init.sql")
        << "CREATE USER IF NOT EXISTS cubepi@localhost;\nCREATE DATABASE IF NOT EXISTS "
           "ready;\nGRANT ALL ON *.* TO cubepi@localhost WITH "
           "GRANT OPTION;\n";
    start();
}

MySQLServer::~MySQLServer() {
    if (pid_ > 0) stop(SIGKILL);
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
}

MySQLServer& MySQLServer::shared() {
    static MySQLServer server;
    return server;
}

int MySQLServer::spawn(const std::vector<std::string>& arguments, std::size_t file_limit) const {
    std::vector<char*> argv;
    for (const std::string& one : arguments) argv.push_back(const_cast<char*>(one.c_str()));
    argv.push_back(nullptr);
    const std::string log = directory_ + "/log";
    const int parent = getpid();
    const int pid = fork();
    if (pid != 0) return pid;
    if (user_ != 0 && (setgroups(0, nullptr) != 0 || setgid(group_) != 0 || setuid(user_) != 0))
        _exit(126);
    // After the change of the user, which resets it.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || chdir("/") != 0) _exit(126);
    if (file_limit > 0) {
        // The server gets an error instead of a signal.
        const rlimit limit = {file_limit, file_limit};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(126);
        std::signal(SIGXFSZ, SIG_IGN);
    }
    const int output = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
}

std::string MySQLServer::log() const {
    std::ifstream file(directory_ + "/log");
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void MySQLServer::start(std::size_t file_limit) {
    pid_ = spawn(
        {program("mariadbd"), "--no-defaults", "--datadir=" + directory_ + "/d",
         "--tmpdir=" + directory_ + "/tmp", "--socket=" + socket(), "--skip-networking",
         "--pid-file=" + directory_ + "/pid", "--init-file=" + directory_ + "/init.sql",
         "--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=64M",
         "--innodb-log-file-size=16M", "--max-connections=200", "--character-set-server=utf8mb4",
         "--table-open-cache=400", "--performance-schema=OFF", "--innodb-flush-method=nosync",
         "--innodb-doublewrite=0", "--sync-binlog=0"},
        file_limit);
    // The user exists when the server accepts connections: it executes the file before.
    for (;;) {
        if (MYSQL* const handle = connect(socket(), "")) {
            mysql_close(handle);
            return;
        }
        int status = 0;
        if (waitpid(pid_, &status, WNOHANG) == pid_) {
            pid_ = -1;
            fail("the server did not start:\n" + log());
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

void MySQLServer::stop(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
}

std::string MySQLServer::connection(const std::string& database, const std::string& login) const {
    return "mysql://" + login + "@localhost/" + database + "?socket=" + socket();
}

std::string MySQLServer::create_empty_database() {
    const std::string name = "test" + std::to_string(++databases_);
    RawMySQL().query("CREATE DATABASE " + name + " CHARACTER SET utf8mb4");
    return name;
}

std::string MySQLServer::create_database() {
    const std::string name = create_empty_database();
    MySQLOptions options;
    options.connection = connection(name);
    run(apply_mysql_schema(options));
    return name;
}

void MySQLServer::load(const std::string& database, const std::string& file) const {
    const std::string command = program("mariadb") + " --no-defaults -u cubepi -S " + socket() +
                                " " + database + " < " + file;
    if (std::system(command.c_str()) != 0) fail("cannot load " + file);
}

RawMySQL::RawMySQL(const std::string& database, const MySQLServer& server)
    : connection_(connect(server.socket(), database)) {
    if (!connection_) fail("cannot connect to the server of the tests");
}

std::vector<std::string> RawMySQL::query(const std::string& sql) {
    std::vector<std::string> values;
    int next = mysql_real_query(connection_, sql.data(), sql.size());
    for (; next == 0; next = mysql_next_result(connection_)) {
        values.clear();
        MYSQL_RES* const result = mysql_store_result(connection_);
        if (!result) continue;
        while (const MYSQL_ROW row = mysql_fetch_row(result)) {
            for (unsigned i = 0; i < mysql_num_fields(result); ++i)
                values.emplace_back(row[i] ? row[i] : "NULL");
        }
        mysql_free_result(result);
    }
    if (next > 0) fail(std::string(mysql_error(connection_)) + ": " + sql);
    return values;
}

}  // namespace cubepi
