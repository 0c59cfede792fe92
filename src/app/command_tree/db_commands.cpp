#include "add_commands.hpp"

#include <CLI/CLI.hpp>

#include "shared_options.hpp"

namespace cubepi::app {

namespace {

constexpr const char* db_examples = R"(Examples:
  cubepi db status postgres://app@db.example/agents     the versions of the tables
  cubepi db init postgres://app@db.example/agents       create them in an empty database
  cubepi db init --tapes postgres://app@db.example/agents
  cubepi db migrate threads.db                          an SQLite file
  cubepi db sql postgres://app@db.example/agents        what init or migrate would execute
  cubepi db sql postgres --from 4                       the same without a connection

Other users can see command lines: leave the password out of the URL, and put it into PGPASSWORD, ~/.pgpass
or MYSQL_PWD.)";

}  // namespace

void add_db_commands(CLI::App& app, CommandLine& line) {
    using What = DatabaseArguments::What;
    DatabaseArguments& db = line.db;
    CLI::App* command = app.add_subcommand("db", "Create and migrate the tables of a database");
    command->footer(db_examples);
    command->require_subcommand(1);
    const auto add = [&](const char* name, const char* description, What what) -> CLI::App& {
        CLI::App* added = command->add_subcommand(name, description);
        added->footer("");
        added->callback([&line, what] { line.db.what = what; });
        return *added;
    };
    const auto add_tapes = [&db](CLI::App& added) {
        added.add_flag("--tapes", db.tapes, "The tables of tapes instead of those of threads");
    };
    const auto add_on = [&](const char* name, const char* description, What what) -> CLI::App& {
        CLI::App& added = add(name, description, what);
        added
            .add_option("database", db.target,
                        "postgres://..., mysql://..., or an SQLite file (default: the database of "
                        "sessions in the configuration file)")
            ->type_name(value_type::database);
        add_tapes(added);
        return added;
    };
    add_on("status", "Show the versions of the tables", What::status)
        .add_flag("--json", db.json, "Print a JSON object");
    add_on("init", "Create the tables in an empty database", What::init);
    add_on("migrate", "Migrate older tables, also those of CubePi", What::migrate);
    CLI::App& sql = add("sql", "Print the SQL that creates or migrates the tables", What::sql);
    sql.add_option("database", db.target, "A database, or postgres, mysql or sqlite for a new one")
        ->required()
        ->type_name(value_type::database);
    sql.add_option("--from", db.from,
                   "With postgres or mysql: the version of CubePi's tables, 1 to 5")
        ->type_name("VERSION")
        ->check(CLI::Range(1, 5));
    add_tapes(sql);
    command->callback([&line] { line.verb = Verb::db; });
}

}  // namespace cubepi::app
