#include <bub/channel/manager/manager_core.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/core/cancellation.hpp>

// One turn at a time per session: its queue, its turns, and how they end.

namespace bub::detail {

std::shared_ptr<SessionQueue> ManagerCore::find_session(const std::string& id) const {
    const auto found = sessions_.find(id);
    return found == sessions_.end() ? nullptr : found->second;
}

std::shared_ptr<SessionQueue> ManagerCore::session(const std::string& id) {
    std::shared_ptr<SessionQueue>& session = sessions_[id];
    if (!session) {
        session = std::make_shared<SessionQueue>();
        session->id = id;
    }
    return session;
}

void ManagerCore::enqueue(const std::string& session_id, Waiting waiting) {
    const std::shared_ptr<SessionQueue> queue = session(session_id);
    queue->waiting.push_back(std::move(waiting));
    ++waiting_;
    if (!std::exchange(queue->working, true)) work_->spawn(run_session(queue));
}

Task<> ManagerCore::run_session(std::shared_ptr<SessionQueue> session) {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    co_await ready_.wait();
    while (!session->waiting.empty() && open_) {
        Waiting next = std::move(session->waiting.front());
        session->waiting.pop_front();
        if (waiting_ > 0) --waiting_;
        session->turn.emplace();
        session->receipts = std::move(next.receipts);
        session->parts = 0;
        std::exception_ptr failure;
        try {
            if (next.rest.empty()) {
                co_await note_begin(session->receipts);
                Task<TurnResult> turn =
                    framework_.process_inbound(std::move(next.message), options_.stream_output);
                const TurnResult result =
                    co_await cubepi::cancel_on(session->turn->get_token(), std::move(turn));
            } else {
                Task<> rest = send_rest(session, std::move(next.rest), next.parts);
                co_await cubepi::cancel_on(session->turn->get_token(), std::move(rest));
            }
        } catch (...) {
            // The observers were notified; the next turn is not affected.
            failure = std::current_exception();
        }
        session->turn.reset();
        const bool comes_again = !open_ && cubepi::is_cancellation(failure);
        Receipts over = std::exchange(session->receipts, {});
        Receipts taken_in = take_back_steered(*session);
        if (!comes_again) over.insert(over.end(), taken_in.begin(), taken_in.end());
        co_await cubepi::shield();
        co_await note_over(std::move(over), comes_again);
        co_await cubepi::unshield();
    }
    session->working = false;
    const auto found = sessions_.find(session->id);
    if (found != sessions_.end() && found->second == session && session->waiting.empty())
        sessions_.erase(found);
    changed();
}

/// Requeues messages that the turn did not accept, in order of arrival among the other waiting messages. A message that
/// did not come through the manager (a plugin put it into the inbox) has no receipts and comes last.
Receipts ManagerCore::take_back_steered(SessionQueue& session) {
    Receipts taken_in;
    if (!inbox_) return taken_in;
    std::deque<Steered> steered = std::exchange(session.steered, {});
    for (Envelope& message : inbox_->drain(session.id)) {
        const auto given =
            std::find_if(steered.begin(), steered.end(), [&message](const Steered& one) {
                return one.number == message.arrival && one.number != 0;
            });
        Waiting waiting;
        waiting.message = std::make_shared<Envelope>(std::move(message));
        if (given != steered.end()) {
            waiting.number = given->number;
            waiting.receipts = std::move(given->receipts);
            steered.erase(given);
        } else {
            waiting.number = ++arrivals_;
        }
        session.waiting.push_back(std::move(waiting));
        ++waiting_;
    }
    for (const Steered& one : steered)
        taken_in.insert(taken_in.end(), one.receipts.begin(), one.receipts.end());
    std::sort(session.waiting.begin(), session.waiting.end(),
              [](const Waiting& a, const Waiting& b) { return a.number < b.number; });
    return taken_in;
}

bool ManagerCore::cancel_turn(const std::string& session_id) {
    const std::shared_ptr<SessionQueue> session = find_session(session_id);
    if (!session || !session->turn) return false;
    session->turn->request_stop();
    return true;
}

Task<> ManagerCore::quit(std::string session_id) {
    const std::shared_ptr<SessionQueue> session = find_session(session_id);
    if (inbox_) (void)inbox_->drain(session_id);
    if (!session) co_return;
    Receipts dropped;
    for (const Waiting& waiting : session->waiting)
        dropped.insert(dropped.end(), waiting.receipts.begin(), waiting.receipts.end());
    for (const Steered& given : session->steered)
        dropped.insert(dropped.end(), given.receipts.begin(), given.receipts.end());
    waiting_ -= std::min(waiting_, session->waiting.size());
    session->waiting.clear();
    session->steered.clear();
    co_await note_over(std::move(dropped));
}

Task<> ManagerCore::abort_session(std::string session_id) {
    co_await quit(session_id);
    for (const auto& [key, lane] : lanes_) {
        if (lane->working && (key == session_id || lane->session_id == session_id))
            lane->admitting.request_stop();
    }
    cancel_turn(session_id);
}

TurnSnapshot ManagerCore::snapshot(const std::string& session_id) const {
    TurnSnapshot turn;
    turn.session_id = session_id;
    const std::shared_ptr<SessionQueue> session = find_session(session_id);
    if (session) {
        turn.is_running = session->turn.has_value();
        turn.running_count = turn.is_running ? 1 : 0;
        turn.pending_count = session->waiting.size();
    }
    if (inbox_) turn.steering_count = inbox_->count(session_id);
    return turn;
}

std::size_t ManagerCore::working_lanes() const {
    return static_cast<std::size_t>(
        std::count_if(lanes_.begin(), lanes_.end(), [](const auto& entry) {
            return entry.second->working ||
                   (entry.second->debouncer && entry.second->debouncer->waiting() > 0);
        }));
}

Task<> ManagerCore::idle() {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    // The records of an earlier process count as work as well.
    while (busy_sessions() > 0 || (open_ && !ready_.is_set())) co_await idle_.wait();
}

}  // namespace bub::detail
