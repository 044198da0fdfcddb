-- The peer: what a site would write by hand for the same purpose, in job_submit/lua. It knows --gres alone.
local quota = {}
for i = 0, 99 do quota["t" .. i] = 1000 end

function slurm_job_submit(job, partitions, uid)
  local gpus = 0
  for _, field in ipairs({"tres_per_node", "tres_per_job", "tres_per_task"}) do
    local count = job[field] and string.match(job[field], "gpu:?%a*:(%d+)")
    if count then gpus = gpus + tonumber(count) end
  end
  if gpus == 0 then return slurm.SUCCESS end
  local nodes = job.max_nodes < 100000 and job.max_nodes or 1
  local own = quota[job.account]
  if own == nil then
    slurm.log_user("account is not a tenant")
    return slurm.ERROR
  end
  if gpus * nodes > own then
    slurm.log_user("more GPUs than the quota")
    return slurm.ERROR
  end
  job.licenses = "dl_" .. job.account .. ":" .. gpus * nodes
  job.admin_comment = "tenant=" .. job.account .. " gpus=" .. gpus * nodes
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid) return slurm.SUCCESS end

return slurm.SUCCESS
