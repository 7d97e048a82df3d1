-- The health check of Argo CD for samplecrd.k8s.io/Network. argocd-cm.yaml has the same text.
local hs = {status = "Progressing", message = "Waiting for the controller"}

local status = obj.status or {}
local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  conditions[condition.type] = condition
end
local ready = conditions.Ready

if obj.metadata.deletionTimestamp ~= nil then
  hs.message = "Pending deletion"
  if ready ~= nil and ready.status == "False" then
    hs.message = ready.message
  end
  return hs
end

-- The status describes an older generation, or the controller has not written it yet.
if ready == nil or (status.observedGeneration or 0) < (obj.metadata.generation or 0) then
  return hs
end

hs.message = ready.message
local stalled = conditions.Stalled
if stalled ~= nil and stalled.status == "True" then
  hs.status = "Degraded"
  hs.message = stalled.message
elseif ready.status == "True" then
  hs.status = "Healthy"
elseif ready.reason == "Paused" then
  hs.status = "Suspended"
end
return hs
