#pragma once

#include <cstddef>
#include <string>

namespace cubepi::cluster_tests {

/// The transactions that turns of shared gateways need at least, without a gateway, on tables of its own in a database: a message is
/// received, its session is claimed; entries, answer and end of the message are stored under the fence of the claim; the answer
/// gets its receipt. As many connections as the judge has clients.
class BareSql {
public:
    /// Creates the tables.
    BareSql(std::string database, std::size_t clients);

    /// The numbers of a second.
    struct Rates {
        double received = 0;  ///< messages: one commit
        double worked = 0;    ///< claims and ends: two commits
        double turns = 0;     ///< everything: four commits
    };
    /// Makes so many turns, of different sessions.
    Rates run(std::size_t turns);

private:
    std::string database_;
    std::size_t clients_;
    std::size_t next_ = 0;
};

}  // namespace cubepi::cluster_tests
