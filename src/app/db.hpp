#pragma once

#include <ostream>
#include <string>

namespace cubepi::app {

/// The arguments of `cubepi db`.
struct DatabaseArguments {
    enum class What { status, init, migrate, sql };
    What what = What::status;
    /// A URL, an SQLite file; sql: also the name of a kind of database. Empty: the database of the sessions (tape_place()).
    std::string target = {};
    int from = 0;        ///< sql, of a kind: the version of CubePi's tables
    bool tapes = false;  ///< the tables of tapes instead of those of threads
    bool json = false;
};

/// Shows or changes the tables of a database. Returns the exit status. Throws Error for wrong arguments, CheckpointerError for a
/// database that cannot be used.
int use_database(const DatabaseArguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace cubepi::app
