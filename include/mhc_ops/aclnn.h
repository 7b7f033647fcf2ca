/* What the aclnn library of mhc-ops has beside the published calls (acl/acl.h, aclnnop/). */
#ifndef MHC_OPS_ACLNN_H
#define MHC_OPS_ACLNN_H

#include "acl/acl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The chip whose rules apply to first calls of this thread: ascend950, ascend910b or ascend910_93;
 * null for the process's, which MHC_OPS_SOC names. An executor keeps the chip it was made under. */
ACL_FUNC_VISIBILITY aclError mhc_aclnn_set_soc(const char *name);

#ifdef __cplusplus
}
#endif
#endif
