#pragma once

#include <ostream>
#include <string>
#include <vector>

#include <cubepi/checkpoint/store_report.hpp>

namespace cubepi::app {

class TerminalStream;

/// Checks what a URL, an SQLite file, a directory of tapes, the directory of a delivery log or $BUB_HOME names; without a target the
/// configured sessions and the messages of the gateway. Of a PostgreSQL database it checks the tables that there are: of
/// threads, of tapes and of the messages of gateways; `tapes`: not those of threads. Reads only. Throws Error(invalid_argument) for another target, CheckpointerError for a store that cannot be opened.
std::vector<StoreReport> check_stores(const std::string& target, bool tapes);

/// Prints the reports, and returns the exit status: exit_failed if something is missing or cannot be read.
int show_checks(const std::vector<StoreReport>& reports, bool json, std::ostream& out,
                TerminalStream& err);

}  // namespace cubepi::app
