// How lines of the log look on stderr, as text or as a JSON object each; what spdlog's default logger is told, and lines that
// others have made whole (requests/failure_log.h).
//
//   text   2026-11-24 22:10:00.123456 info loading the models of models
//   json   {"time":"2026-11-24T21:10:00.123456Z","level":"info","message":"loading the models of models"}
//
// Who reads stderr may stop reading: a pipe, or a terminal, is full then, and who writes to it waits for ever. Nobody here does, for loads, drains
// and the end of the process write lines. One that finds no room within a second is left out, and so is at once what follows,
// until there is room: then a line says how many. Whole lines, which have a thread of their own, wait until the end.
//
// Any thread, once SetUpLog was called.
#ifndef CELLBATCH_SERVER_CONTROL_LOG_LINES_H_
#define CELLBATCH_SERVER_CONTROL_LOG_LINES_H_

#include <string>
#include <string_view>

#include "server/requests/failure_log.h"
#include "spdlog/common.h"

namespace cellbatch {

// "text" or "json"; text if it is neither.
LogFormat LogFormatNamed(std::string_view name);

// Before anything is logged: stderr is where the default logger writes, from `level` on (--log-level).
void SetUpLog(const std::string& level, LogFormat format);
// Of the default logger, wherever it writes.
void SetLogFormat(LogFormat format);
// A whole line, to where the default logger writes after SetUpLog, if that takes lines of this level. Likewise of others'.
void WriteLine(spdlog::level::level_enum level, const std::string& line);
// The process ends: whole lines wait for room no longer.
void HurryLog();

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CONTROL_LOG_LINES_H_
