#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/checkpoint/stored_runs.hpp>
#include <cubepi/sql/options.hpp>

namespace cubepi {

namespace detail {
class SqlDriver;
class SqlThreadStore;
class ThreadSchema;
}  // namespace detail

/// The abilities of the stores on a database server. Use PostgresCheckpointer or MySQLCheckpointer, which describe the errors
/// and the thread rules.
class SqlCheckpointer : public Checkpointer,
                        public StoredRuns,
                        public MessageIndex,
                        public ForkStore,
                        public ThreadStore {
public:
    ~SqlCheckpointer() override;
    SqlCheckpointer(const SqlCheckpointer&) = delete;
    SqlCheckpointer& operator=(const SqlCheckpointer&) = delete;

    /// Connects and checks the tables now, to detect errors early. Optional.
    Task<void> open();

    Task<std::optional<CheckpointData>> load(std::string thread_id) override;
    Task<std::int64_t> append(std::string thread_id, MessageList messages,
                              AppendOptions options) override;
    Task<void> save_extra(std::string thread_id, JsonObject extra) override;

    Task<std::optional<Message>> find_message(std::string thread_id,
                                              std::string message_id) override;

    Task<MessageList> snapshot(std::string thread_id, std::string after_run_id) override;
    Task<void> fork(std::string source_thread_id, std::string new_thread_id,
                    std::string after_run_id, std::optional<JsonObject> metadata) override;

    Task<std::vector<ThreadInfo>> list_threads() override;
    Task<void> delete_thread(std::string thread_id) override;

protected:
    SqlCheckpointer(SqlOptions options, std::shared_ptr<const detail::SqlDriver> driver,
                    std::shared_ptr<const detail::ThreadSchema> schema);

private:
    explicit SqlCheckpointer(std::shared_ptr<detail::SqlThreadStore> store);

    std::shared_ptr<detail::SqlThreadStore> store_;
};

}  // namespace cubepi
