#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

// Records of the gateways of a cluster, and their check. The check reads the database, the log of effects and what the service of a bot
// has received.

namespace cubepi::cluster_tests {

/// A message of a client.
struct Posted {
    std::string key = {};  ///< of its request, or its id at its platform
    std::string session = {};
    std::string text = {};  ///< unique; its answer is "re: TEXT"
    bool has_effect = false;
    bool is_update = false;  ///< a bot receives it and sends the answer; the key is a number
    std::string user = {};   ///< of its request
};

/// A row of the received messages.
struct InboundRow {
    std::int64_t id = 0;
    std::string message = {};  ///< its id, of its user and key
    bool is_finished = false;
    bool is_held = false;      ///< a gateway that has taken it has left it to the operator (B18)
    std::string details = {};  ///< the row, and each gateway that has taken it
};

/// A row of the answers.
struct OutboundRow {
    std::int64_t id = 0;
    std::vector<std::int64_t> answers = {};  ///< ids of received messages
    std::string state = {};                  ///< "sent" or "failed": it has a receipt
};

/// A message on a tape.
struct TapeText {
    bool is_of_user = false;
    std::string text = {};  ///< its last line
    bool is_late = false;  ///< it is repeated after later ones, because an operator has released it
    bool is_unknown = false;  ///< a call of its turn was interrupted, and the tape says so
};

struct ClusterRecords {
    std::vector<InboundRow> inbound = {};
    std::vector<OutboundRow> outbound = {};
    std::map<std::string, std::vector<TapeText>> tapes = {};  ///< by name, in order
    std::map<std::string, int> effects = {};                  ///< by key of the message
    std::set<std::int64_t> released = {};  ///< received messages that the operator has released
    /// The texts that a bot has sent, by session, in order; none: clients have received the answers.
    std::optional<std::map<std::string, std::vector<std::string>>> chats = {};
};

/// Added to the ids of each further database, where the same ids occur.
inline constexpr std::int64_t distance_of_ids = 1'000'000'000'000;

/// An SQL condition: a gateway that has taken the message `i` has left it to the operator.
inline constexpr const char* is_held_sql =
    "EXISTS (SELECT 1 FROM judge_takes AS t WHERE t.id = i.id AND t.begun >= 2 + t.outlived)";

/// Has the server of a database record which gateways take messages of others, for InboundRow::is_held.
void record_takes(const std::string& database);

/// `effects`: a file with the key of a message in each line.
ClusterRecords read_records(const std::vector<std::string>& databases,
                            const std::filesystem::path& effects);

/// Returns what is wrong; empty if every message has exactly one turn on its tape and one answer with a receipt, the order of each
/// session is that of arrival, each effect happened at most once or is marked as unknown, and nothing waits. A message whose turns were
/// interrupted twice waits for the operator (B18), or until a gateway of these turns has returned (D264); one that is released after later
/// ones is repeated behind them and marked (D90). A bot must have sent each answer, at most once without the mark of a repetition, and in
/// this order; one that was also sent with the mark may have been delayed in a frozen gateway (D206).
std::vector<std::string> findings(const std::vector<Posted>& posted, const ClusterRecords& records);

/// Returns the tapes and the rows of the messages that findings begin with.
std::string details_of(const std::vector<std::string>& found, const std::vector<Posted>& posted,
                       const ClusterRecords& records);

}  // namespace cubepi::cluster_tests
