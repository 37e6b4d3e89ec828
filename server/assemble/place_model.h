// On which kinds of devices a model lives: what its config says, on the devices that this server has.
//
//   devices: CPU, GPU         on that kind; refused where this server has none
//   nothing, one kind         there
//   nothing, both kinds       on both with bits: MAY_DIFFER, else on GPUs: who names one wants it used
//   PRECISION_W8              which GPUs do not compute: on CPUs, if nothing is said; refused where there are none
//
// It goes by the config and by --devices alone, so that a model's bits do not change from one start to the next, and --check,
// which opens no device, says the same. The loader's; one thread.
#ifndef CELLBATCH_SERVER_ASSEMBLE_PLACE_MODEL_H_
#define CELLBATCH_SERVER_ASSEMBLE_PLACE_MODEL_H_

#include "cells/device_kind.h"
#include "server/assemble/assembly.h"

namespace cellbatch {

// What cannot be is noted as a problem. Where a server's kinds are not known (LoaderLimits::devices): any that the config
// allows.
DeviceKinds PlaceModel(Assembly& a);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_ASSEMBLE_PLACE_MODEL_H_
