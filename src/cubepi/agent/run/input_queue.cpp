#include <cubepi/agent/run/input_queue.hpp>

#include <array>
#include <cstddef>
#include <functional>
#include <iterator>
#include <utility>

namespace cubepi {

std::string_view to_string(ReceiptState state) noexcept {
    switch (state) {
        case ReceiptState::queued: return "queued";
        case ReceiptState::committed: return "committed";
        case ReceiptState::cancelled: return "cancelled";
        case ReceiptState::refused: return "refused";
    }
    return "queued";
}

const std::string& Receipt::message_id() const noexcept { return shared_->message_id; }
ReceiptState Receipt::state() const noexcept { return shared_->state.load(); }

namespace detail {

namespace {

/// Returns the queued input with that id: the same id twice is one message (D42).
std::shared_ptr<Receipt::Shared> queued(const std::vector<Input>& queue, const std::string& id) {
    for (const Input& input : queue) {
        if (input.message.id() == id) return input.receipt;
    }
    return nullptr;
}

bool has_id(const Input& input, std::string_view id) {
    if (input.message.id() == id) return true;
    const Json* steer_id = input.message.metadata().find("steer_id");
    return steer_id && steer_id->is_string() && steer_id->get_string() == id;
}

std::vector<Input> take(std::vector<Input>& queue, QueueMode mode, const SharedString& run_id) {
    std::vector<Input> taken;
    for (auto it = queue.begin(); it != queue.end();) {
        if (!it->for_run.empty() && it->for_run != run_id) {
            it->mark(ReceiptState::refused);
            it = queue.erase(it);
            continue;
        }
        taken.push_back(std::move(*it));
        it = queue.erase(it);
        if (mode == QueueMode::one_at_a_time) break;
    }
    return taken;
}

void put_front(std::vector<Input>& queue, std::vector<Input> inputs) {
    queue.insert(queue.begin(), std::make_move_iterator(inputs.begin()),
                 std::make_move_iterator(inputs.end()));
}

}  // namespace

std::mutex& InputQueue::mutex() const noexcept {
    static std::array<std::mutex, 64> shared;
    return shared[std::hash<const InputQueue*>()(this) / alignof(std::max_align_t) % shared.size()];
}

InputQueue::Queues& InputQueue::queues() {
    if (!queues_) queues_ = std::make_unique<Queues>();
    return *queues_;
}

void InputQueue::note_queued() {
    steers_.store(!queues().steering.empty(), std::memory_order_release);
    follows_up_.store(!queues().follow_ups.empty(), std::memory_order_release);
}

Receipt InputQueue::steer(Message message, std::string for_run, bool identified) {
    const std::lock_guard lock(mutex());
    if (auto known = identified ? queued(queues().steering, message.id()) : nullptr)
        return Receipt(known);
    auto receipt = std::make_shared<Receipt::Shared>(message.id());
    if (!for_run.empty() && !run_id_.empty() && for_run != run_id_) {
        receipt->state.store(ReceiptState::refused);
        return Receipt(std::move(receipt));
    }
    Input input;
    input.message = std::move(message);
    input.receipt = receipt;
    input.for_run = std::move(for_run);
    input.identified = identified;
    queues().steering.push_back(std::move(input));
    note_queued();
    return Receipt(std::move(receipt));
}

Receipt InputQueue::follow_up(Message message, bool identified) {
    const std::lock_guard lock(mutex());
    if (auto known = identified ? queued(queues().follow_ups, message.id()) : nullptr)
        return Receipt(known);
    auto receipt = std::make_shared<Receipt::Shared>(message.id());
    Input input;
    input.message = std::move(message);
    input.receipt = receipt;
    input.identified = identified;
    input.is_follow_up = true;
    queues().follow_ups.push_back(std::move(input));
    note_queued();
    return Receipt(std::move(receipt));
}

bool InputQueue::cancel_steer(std::string_view id) {
    const std::lock_guard lock(mutex());
    if (!queues_) return false;
    const std::size_t before = queues().steering.size();
    std::erase_if(queues().steering, [&](const Input& input) {
        if (!has_id(input, id)) return false;
        input.mark(ReceiptState::cancelled);
        return true;
    });
    note_queued();
    return queues().steering.size() != before;
}

void InputQueue::abort() {
    std::stop_source stop(std::nostopstate);
    {
        const std::lock_guard lock(mutex());
        stop = stop_;
    }
    // Outside the lock, because stop callbacks run here.
    stop.request_stop();
}

void InputQueue::abort_waiting() {
    std::stop_source waiting(std::nostopstate);
    {
        const std::lock_guard lock(mutex());
        if (queues_) std::swap(waiting, queues_->waiting);
    }
    waiting.request_stop();
}

bool InputQueue::aborted() const {
    const std::lock_guard lock(mutex());
    return stop_.stop_requested();
}

std::stop_token InputQueue::waiting_token() {
    const std::lock_guard lock(mutex());
    std::stop_source& source = queues().waiting;
    if (!source.stop_possible()) source = std::stop_source();
    return source.get_token();
}

void InputQueue::clear() {
    const std::lock_guard lock(mutex());
    if (!queues_) return;
    for (const Input& input : queues().steering) input.mark(ReceiptState::cancelled);
    for (const Input& input : queues().follow_ups) input.mark(ReceiptState::cancelled);
    queues().steering.clear();
    queues().follow_ups.clear();
    note_queued();
}

std::stop_token InputQueue::begin_run(SharedString run_id) {
    const std::lock_guard lock(mutex());
    run_id_ = std::move(run_id);
    stop_ = std::stop_source();
    return stop_.get_token();
}

void InputQueue::set_run_id(SharedString run_id) {
    const std::lock_guard lock(mutex());
    run_id_ = std::move(run_id);
}

void InputQueue::end_run() {
    const std::lock_guard lock(mutex());
    run_id_ = SharedString();
    stop_ = std::stop_source(std::nostopstate);
}

std::vector<Input> InputQueue::take_steering() {
    if (!has_steering()) return {};
    const std::lock_guard lock(mutex());
    std::vector<Input> taken = take(queues().steering, steering_mode_, run_id_);
    note_queued();
    return taken;
}

std::vector<Input> InputQueue::take_follow_ups() {
    if (!has_follow_ups()) return {};
    const std::lock_guard lock(mutex());
    std::vector<Input> taken = take(queues().follow_ups, follow_up_mode_, run_id_);
    note_queued();
    return taken;
}

void InputQueue::put_back(std::vector<Input> inputs) {
    if (inputs.empty()) return;
    const std::lock_guard lock(mutex());
    // Inputs taken together are of one queue.
    std::vector<Input>& queue =
        inputs.front().is_follow_up ? queues().follow_ups : queues().steering;
    put_front(queue, std::move(inputs));
    note_queued();
}

}  // namespace detail

}  // namespace cubepi
