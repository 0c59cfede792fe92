#include <cubepi/checkpoint/memory/thread.hpp>

#include <algorithm>
#include <utility>

namespace cubepi::detail {

namespace {

bool contains(const std::vector<std::string>& list, const std::string& text) {
    return std::find(list.begin(), list.end(), text) != list.end();
}

}  // namespace

bool MemoryThread::is_complete(const std::string& run_id) const {
    const auto run = runs.find(run_id);
    return run != runs.end() && run->second.completion > 0;
}

void MemoryThread::store(const MessageList& added) {
    for (const Message& message : added) {
        if (!message.id().empty()) by_message_id.emplace(message.id(), messages.size());
        messages.push_back(message);
    }
}

void MemoryThread::merge_extra(const JsonObject& changes) {
    if (!extra) extra.emplace();
    for (const auto& [key, value] : changes) {
        if (value.is_null()) {
            extra->erase(key);
        } else {
            (*extra)[key] = value;
        }
    }
}

void MemoryThread::settle(const std::string& run_id, const std::vector<std::string>& question_ids) {
    std::erase_if(pending, [&](const PendingRequest& one) {
        return one.run_id == run_id && contains(question_ids, one.request.question_id);
    });
    for (const std::string& question_id : question_ids) answers.erase({run_id, question_id});
    const auto batch = batches.find(run_id);
    if (batch == batches.end()) return;
    std::erase_if(batch->second.used_answers, [&](const HitlAnswer& answer) {
        return contains(question_ids, answer.question_id);
    });
}

void MemoryThread::mark_started(const BatchStart& start) {
    StartedBatch& batch = batches[start.run_id];
    if (batch.batch_id != start.batch_id) batch = StartedBatch();
    batch.batch_id = start.batch_id;
    for (const std::string& call_id : start.tool_call_ids) {
        if (!contains(batch.tool_call_ids, call_id)) batch.tool_call_ids.push_back(call_id);
    }
    for (const std::string& question_id : start.question_ids) {
        auto stored = answers.extract({start.run_id, question_id});
        if (stored.empty()) continue;
        HitlAnswer answer;
        answer.run_id = start.run_id;
        answer.question_id = question_id;
        answer.answer = std::move(stored.mapped());
        batch.used_answers.push_back(std::move(answer));
    }
}

void MemoryThread::remove_answers_of(const std::string& run_id) {
    std::erase_if(answers, [&](const auto& entry) { return entry.first.first == run_id; });
    batches.erase(run_id);
}

}  // namespace cubepi::detail
