#include "mcp_resource_offers.hpp"

#include <chrono>
#include <iterator>
#include <utility>

#include <cubepi/core/outcome.hpp>

namespace cubepi::app {

namespace {

constexpr auto longest_wait = std::chrono::seconds(15);

/// Ends a state in which other calls do nothing.
struct Busy {
    bool& is_busy;
    explicit Busy(bool& flag) : is_busy(flag) { is_busy = true; }
    ~Busy() { is_busy = false; }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;
};

}  // namespace

McpResourceOffers::McpResourceOffers(std::shared_ptr<McpHub> servers, Show show)
    : servers_(std::move(servers)), show_(std::move(show)) {}

Task<> McpResourceOffers::list() {
    if (!servers_ || is_listing_) co_return;
    const Busy busy(is_listing_);
    listed_ = co_await list_mcp_resources(servers_, longest_wait);
    show_all();
}

Task<> McpResourceOffers::complete(std::string word) {
    wanted_ = std::move(word);
    if (!servers_ || is_completing_) co_return;
    const Busy busy(is_completing_);
    for (std::string asked; asked != wanted_;) {
        asked = wanted_;
        std::vector<McpResourceOffer> templates;
        for (const McpResourceOffer& one : listed_) {
            if (!one.uri_template.empty() && asked.starts_with(one.text)) templates.push_back(one);
        }
        std::vector<McpResourceOffer> found;
        for (McpResourceOffer& one : templates) {
            Task<std::vector<McpResourceOffer>> asking =
                complete_mcp_resource(servers_, std::move(one), asked);
            std::vector<McpResourceOffer> ends = co_await std::move(asking);
            found.insert(found.end(), std::make_move_iterator(ends.begin()),
                         std::make_move_iterator(ends.end()));
        }
        if (found.empty() && completed_.empty()) continue;
        completed_ = std::move(found);
        show_all();
    }
}

void McpResourceOffers::show_all() {
    std::vector<Command> entries;
    for (const std::vector<McpResourceOffer>* offers : {&completed_, &listed_}) {
        for (const McpResourceOffer& one : *offers) {
            Command entry;
            entry.name = one.text;
            entry.help = one.help;
            entry.needs_argument = !one.uri_template.empty();
            entries.push_back(std::move(entry));
        }
    }
    show_(std::move(entries));
}

}  // namespace cubepi::app
